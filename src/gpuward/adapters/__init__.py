"""The edges, one file per outside thing; they know the ports and the nouns, and judge nothing."""
