"""Clock and file system behind small interfaces, so that tests can replace them.

Page: ``docs/internals/store.md``.
"""
