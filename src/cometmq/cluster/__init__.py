"""Decisions of the cluster as pure functions and state machines: events in, instructions out.

Page: ``docs/internals/cluster.md``.
"""
