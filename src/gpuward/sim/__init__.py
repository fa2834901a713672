"""The pretend machines: what a real one would write and show, for demonstrations and tests; the loops are real."""
