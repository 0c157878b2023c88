"""The leaf operation on signed requests."""
