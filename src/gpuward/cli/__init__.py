"""Thin: the commands, how results look, and wiring, the one place that picks adapters. Nothing is decided here."""
