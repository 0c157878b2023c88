"""Export and archive messages, run after run what is new."""
