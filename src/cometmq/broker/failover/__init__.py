"""A broker under RocketMQ's controller: it changes its role while it runs.

Page: ``docs/internals/replication.md``.
"""
