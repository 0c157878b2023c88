"""The byte layouts on the disk, as pure functions over bytes. No other package knows a layout.

Page: ``docs/internals/formats.md``.
"""
