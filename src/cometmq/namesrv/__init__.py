"""The name server, which knows the brokers of each topic.

Page: ``docs/internals/broker.md``.
"""
