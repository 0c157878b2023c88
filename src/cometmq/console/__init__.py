"""The console: pages for those who operate brokers, in a process of its own that speaks remoting to them.

Page: ``docs/internals/operators.md``.
"""
