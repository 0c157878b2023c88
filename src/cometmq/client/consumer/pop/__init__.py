"""Consumption by pops: messages are handed out one by one, hidden for a time, and acknowledged.

Page: ``docs/internals/pop.md``.
"""
