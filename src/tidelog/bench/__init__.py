"""Figures of a real cluster on this machine, as clients see it."""
