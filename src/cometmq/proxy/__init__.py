"""The gRPC proxy: RocketMQ 5 clients, which speak apache.rocketmq.v2, reach any brokers through it.

Page: ``docs/internals/proxy.md``.
"""
