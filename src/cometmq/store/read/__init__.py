"""Reads of an open store: by queue offset, id, key and time."""
