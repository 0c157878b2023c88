"""Operators' actions as functions that return values, which the command line prints.

Page: ``docs/internals/operators.md``.
"""
