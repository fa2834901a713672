"""The fleet loop: gather, decide, record, perform. What follows from what is, the pure rooms say."""
