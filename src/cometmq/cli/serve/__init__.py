"""The commands that run servers."""
