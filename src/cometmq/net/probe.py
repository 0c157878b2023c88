"""Detection of the protocol of a server that accepts connections and sends nothing.

An HTTP server may read up to the end of a line before it answers, and a frame of RocketMQ has none. So an
HTTP request is sent over a connection of its own: a server of RocketMQ closes that connection, and its
requests on others are not disturbed.
"""

import asyncio
from typing import Final

from cometmq.wire.foreign import HEAD_SIZE, foreign_protocol

REQUEST: Final = b"HEAD / HTTP/1.0\r\n\r\n"
PROBE_S: Final = 0.3
"""How long to wait for the connection and the answer."""


async def protocol_at(host: str, port: int) -> str | None:
    """Return what a server speaks that is not RocketMQ's protocol, or None if that cannot be told."""
    head = b""
    try:
        async with asyncio.timeout(PROBE_S):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(REQUEST)
                head = await reader.read(HEAD_SIZE)
            finally:
                writer.transport.abort()
    except (OSError, UnicodeError):  # a timeout is one of the former
        return None
    return foreign_protocol(head)
