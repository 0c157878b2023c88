"""The command line: one file per noun, imported when its command runs.

Page: ``docs/internals/operators.md``.
"""
