"""Recovery: determine the state of a store that is opened, and rebuild what is derived.

Page: ``docs/internals/recovery.md``.
"""
