"""The remoting protocol over sockets: asyncio server and client, back-pressure, in-process connections.

Page: ``docs/internals/net.md``.
"""
