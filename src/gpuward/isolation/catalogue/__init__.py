"""The code book: what is known of each fault code, as rows with their sources. How a line is read is not here."""
