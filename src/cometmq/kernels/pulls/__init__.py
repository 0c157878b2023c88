"""The leaf operations on pulls, in plain Python and compiled."""
