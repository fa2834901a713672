"""The node loop: read or follow a kernel log, recognise, merge, tell. How the log is reached and shown is not here."""
