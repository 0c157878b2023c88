"""Handlers of clients' requests.

Page: ``docs/internals/door.md``.
"""
