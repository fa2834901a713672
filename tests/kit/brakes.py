"""Brakes for tests that share one API server."""

OPEN_BRAKES = """\
[brake.pool]
least = 100
[brake.rack]
least = 100
[brake.kind]
least = 100
"""
"""The nodes of other tests fell ill on the same server a moment ago: the brakes would hold the next ones."""
