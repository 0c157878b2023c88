"""RocketMQ's remoting protocol without I/O: frames, header fields and bodies as values.

Page: ``docs/internals/formats.md``.
"""
