"""Export and archive messages incrementally: each run adds what is new."""
