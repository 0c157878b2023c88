"""Recognize other protocols by the first bytes of a connection, so that an error can name them.

==============  ==========================================================================
TLS             a record of type handshake (0x16) or alert (0x15), version 3.x
HTTP            ``HTTP/`` in an answer, or a page where the request was no HTTP; a method and a blank
HTTP/2          ``PRI * HTTP/2.0`` from a client; from a server a SETTINGS frame of stream 0
Kafka           a request of a few bytes: size, API key, version, correlation id, client id
others          the text with which servers or clients of SSH, Redis, AMQP, load balancers begin
==============  ==========================================================================

A frame of RocketMQ begins with its length, of at most 16 MiB, so its first byte is 0 or 1; its header is
never empty. Nothing that this module recognizes is such a frame.

Source: RFC 8446 (5.1), RFC 9110, RFC 9113 (3.4, 6.5); Kafka: protocol guide (request header v1).
"""

import struct
from typing import Final

HEAD_SIZE: Final = 24
"""Bytes at the beginning of a stream that are enough to recognize any protocol listed here."""

THIS_IS_TLS: Final = "this is TLS"
_HTTP: Final = "this is HTTP"
_HTTP2: Final = "this is HTTP/2, as gRPC speaks it"
_KAFKA: Final = "this is Kafka's protocol"
_BEGINNINGS: Final = (
    *((text, _HTTP) for text in (b"HTTP/", b"<!DOCTYPE", b"<!doctype", b"<html", b"<HTML")),
    *(
        (method + b" ", _HTTP)
        for method in (
            b"GET",
            b"HEAD",
            b"POST",
            b"PUT",
            b"DELETE",
            b"OPTIONS",
            b"PATCH",
            b"CONNECT",
            b"TRACE",
        )
    ),
    (b"PRI * HTTP/2", _HTTP2),
    (b"SSH-", "this is SSH"),
    (b"-ERR ", "this is Redis"),
    (b"*1\r\n$", "this is Redis"),
    (b"AMQP", "this is AMQP"),
    (b"PROXY ", "this is the PROXY protocol of a load balancer"),
    (b"\r\n\r\n\0\r\nQUIT\n", "this is the PROXY protocol of a load balancer"),
)
_SETTINGS: Final = 4
_SETTING_SIZE: Final = 6
_KAFKA_HEAD: Final = struct.Struct(">iHHih")
_KAFKA_KEY_MAX: Final = 127
_KAFKA_VERSION_MAX: Final = 30
_HEADER_LENGTH_MASK: Final = 0xFF_FFFF


def foreign_protocol(head: bytes) -> str | None:
    """Return a text that names the protocol of a stream beginning with ``head``; None if none matches."""
    for beginning, name in _BEGINNINGS:
        if head.startswith(beginning):
            return name
    if len(head) >= 2 and head[0] in (0x15, 0x16) and head[1] == 3:
        return THIS_IS_TLS
    if _is_http2_settings(head):
        return _HTTP2
    return _KAFKA if _is_kafka_request(head) else None


def _is_http2_settings(head: bytes) -> bool:
    """Check for an HTTP/2 frame header: 24 bits of length, type SETTINGS, no flags, stream 0."""
    size = int.from_bytes(head[:3], "big")
    return len(head) >= 9 and head[3:9] == bytes((_SETTINGS, 0, 0, 0, 0, 0)) and size % _SETTING_SIZE == 0


def _is_kafka_request(head: bytes) -> bool:
    """Check for the header of a small Kafka request with a client id that fits into it."""
    if len(head) < _KAFKA_HEAD.size:
        return False
    size, key, version, _, client_id_size = _KAFKA_HEAD.unpack_from(head)
    is_frame = (key << 16 | version) & _HEADER_LENGTH_MASK <= size - 4
    is_known = 0 < key <= _KAFKA_KEY_MAX and version <= _KAFKA_VERSION_MAX
    return is_known and not is_frame and -1 <= client_id_size <= size - (_KAFKA_HEAD.size - 4)
