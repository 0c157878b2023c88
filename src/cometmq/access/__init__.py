"""Who may do what: users, their policies, and the decision on each request. Pure; brokers hold it.

Page: ``docs/internals/access.md``.
"""
