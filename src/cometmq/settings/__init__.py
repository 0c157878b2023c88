"""What all settings files have in common: values by type, and settings of RocketMQ that are not honoured.

Page: ``docs/internals/broker.md``.
"""
