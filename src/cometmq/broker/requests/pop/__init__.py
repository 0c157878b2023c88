"""Handlers of the requests of pop consumers: pops, acknowledgements, and what goes with them.

Page: ``docs/internals/pop.md``.
"""
