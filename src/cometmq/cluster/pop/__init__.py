"""Decisions of pop consumption: which queues a pop reads, which pops wait, what is delivered again.

Page: ``docs/internals/pop.md``.
"""
