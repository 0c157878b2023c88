"""Reads of an open store: by queue offset, id, key and time.

Page: ``docs/internals/reads.md``.
"""
