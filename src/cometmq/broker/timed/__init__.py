"""Messages that are stored until they are due: delayed, timed, and those of open transactions.

Page: ``docs/internals/timers.md``.
"""
