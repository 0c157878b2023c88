"""The least of RocketMQ's remoting protocol, from the standard library alone, so that it judges nobody by
their own code: one request with a JSON header, one answer.

========== =====================================================================
bytes      what
========== =====================================================================
4          length of all that follows
4          header length; the high byte is the header's encoding, 0 = JSON
…          header
…          body
========== =====================================================================
"""

import json
import socket
import struct
from collections.abc import Mapping
from typing import NamedTuple

LENGTHS = struct.Struct(">ii")
GET_ROUTE = 105
GET_REPLICA_INFO = 1004
NOT_LEADER = 2007
RESPONSE_FLAG = 1


class Answer(NamedTuple):
    """What a peer answered: the code (0 is success), its remark, and the body."""

    code: int
    remark: str
    body: bytes


def frame(code: int, fields: Mapping[str, str], body: bytes = b"") -> bytes:
    """Encode a request."""
    header = {
        "code": code,
        "flag": 0,
        "language": "JAVA",
        "opaque": 1,
        "version": 0,
        "extFields": dict(fields),
    }
    encoded = json.dumps(header).encode()
    return LENGTHS.pack(4 + len(encoded) + len(body), len(encoded)) + encoded + body


def ask(connection: socket.socket, request: bytes) -> Answer:
    """Send a frame and wait for its answer. Raises OSError when the peer goes away."""
    connection.sendall(request)
    return answer(connection)


def answer(connection: socket.socket) -> Answer:
    """Wait for the answer of a frame that was sent, passing over what the peer says of its own accord.

    Raises OSError when the peer goes away.
    """
    while True:
        length, header_length = LENGTHS.unpack(_read(connection, LENGTHS.size))
        rest = _read(connection, length - 4)
        header = json.loads(rest[:header_length])
        if header["flag"] & RESPONSE_FLAG:
            return Answer(header["code"], header.get("remark", ""), rest[header_length:])


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        received = connection.recv(size - len(data))
        if not received:
            raise ConnectionResetError(f"the peer closed after {len(data)} of {size} bytes")
        data += received
    return data
