"""Other protocols are recognized by their first bytes, and RocketMQ's frames are never taken for one."""

import ssl
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.wire.foreign import HEAD_SIZE, foreign_protocol
from cometmq.wire.frame import Command, SerializeType, encode


def tls_hello() -> bytes:
    """Build what a TLS client sends first."""
    outgoing = ssl.MemoryBIO()
    tls = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="broker")
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


KAFKA_HELLO = struct.pack(">iHHih", 25, 18, 3, 1, 12) + b"console-prod\0\0\0"
"""ApiVersions, which Kafka's clients begin with."""


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (tls_hello(), "TLS"),
        (b"\x15\x03\x01\x00\x02\x02\x0a", "TLS"),
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP"),
        (b"POST /v1/send HTTP/1.1\r\n", "HTTP"),
        (b"HTTP/1.1 400 Bad Request\r\n", "HTTP"),
        (b"HTTP/1.0 400", "HTTP"),
        (b"<!DOCTYPE HTML>\n<html>", "HTTP"),
        (b"<html><head>", "HTTP"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "gRPC"),
        (bytes.fromhex("000012040000000000000300000080000400"), "gRPC"),
        (bytes.fromhex("000000040000000000"), "gRPC"),
        (KAFKA_HELLO, "Kafka"),
        (struct.pack(">iHHih", 10, 3, 0, 1, -1), "Kafka"),
        (b"SSH-2.0-OpenSSH_9.9\r\n", "SSH"),
        (b"-ERR unknown command\r\n", "Redis"),
        (b"*1\r\n$4\r\nPING\r\n", "Redis"),
        (b"AMQP\0\0\x09\x01", "AMQP"),
        (b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n", "load balancer"),
        (b"\r\n\r\n\0\r\nQUIT\n\x21\x11", "load balancer"),
    ],
)
def test_a_protocol_is_known_by_its_first_bytes(head: bytes, name: str) -> None:
    assert name in (foreign_protocol(head) or "")
    assert foreign_protocol(head[:HEAD_SIZE]) == foreign_protocol(head)


@pytest.mark.parametrize("head", [b"", b"\0", b"GET", b"\x16", b"hello world, who are you?", bytes(24)])
def test_what_may_be_anything_has_no_name(head: bytes) -> None:
    assert foreign_protocol(head) is None


@given(
    code=st.integers(0, 2**15 - 1),
    opaque=st.integers(-(2**31), 2**31 - 1),
    fields=st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3),
    body=st.binary(max_size=70_000),
    kind=st.sampled_from(SerializeType),
)
def test_no_frame_of_rocketmq_is_taken_for_another_protocol(
    code: int, opaque: int, fields: dict[str, str], body: bytes, kind: SerializeType
) -> None:
    frame = encode(Command(code, opaque, ext_fields=fields, body=body, serialize_type=kind))
    assert foreign_protocol(frame) is None
