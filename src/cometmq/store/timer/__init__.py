"""Timed messages: the timer wheel and its log.

Page: ``docs/internals/timers.md``.
"""
