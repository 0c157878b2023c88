"""Replication: a master sends its CommitLog to slaves, which derive all else from it.

Page: ``docs/internals/replication.md``.
"""
