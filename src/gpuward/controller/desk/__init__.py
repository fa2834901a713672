"""The desk of the fleet: what people may ask of a cluster, and what they may order. How it is worded is not here."""
