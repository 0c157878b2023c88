"""Host addresses as records hold them: the IP address (4 or 16 bytes), then the port (4 bytes, big-endian).

Source: RocketMQ: MessageExt.java (socketAddress2ByteBuffer).
"""

from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final

from cometmq.errors import FormatError
from cometmq.message import Buffer

IPV4_SIZE: Final = 8
IPV6_SIZE: Final = 20
SIZED_HOST_SIZE: Final = 1 + IPV6_SIZE
_PORT_SIZE: Final = 4
_PORT_MAX: Final = 0xFFFF
_TEXTS_KEPT: Final = 1_024
"""Number of hosts whose texts are cached: many messages come from the same few hosts."""


def pack_host(ip: str, port: int) -> bytes:
    """Encode a host: 8 bytes for IPv4, 20 for IPv6.

    An IPv4 address that is mapped into IPv6 (``::ffff:127.0.0.1``, a peer of a dual-stack socket)
    is encoded as IPv4, as in Java. A scope (``fe80::1%eth0``) is left out.

    Raises:
        FormatError: ``ip`` is not a numeric address, or ``port`` is not in 0–65535.
    """
    if not 0 <= port <= _PORT_MAX:
        raise FormatError(f"port {port} is not in 0–{_PORT_MAX}")
    return _pack_ip(ip) + port.to_bytes(_PORT_SIZE, "big")


def unpack_host(data: Buffer) -> tuple[str, int]:
    """Decode a host to address and port; the port of a damaged host may lie outside 0–65535.

    Raises:
        FormatError: ``data`` is neither 8 nor 20 bytes.
    """
    port = int.from_bytes(data[-_PORT_SIZE:], "big", signed=True)
    if len(data) == IPV4_SIZE:
        return ".".join(map(str, data[:-_PORT_SIZE])), port
    if len(data) == IPV6_SIZE:
        return IPv6Address(bytes(data[:-_PORT_SIZE])).compressed, port
    raise FormatError(f"host of {len(data)} bytes: must have {IPV4_SIZE} or {IPV6_SIZE}")


def sized_host(data: bytes) -> bytes:
    """Return a packed host behind its size, in one byte, with zeros up to SIZED_HOST_SIZE bytes."""
    return (bytes([len(data)]) + data).ljust(SIZED_HOST_SIZE, b"\0")


@lru_cache(_TEXTS_KEPT)
def host_text(data: bytes) -> str:
    """Return ``ip:port``, or ``[ip]:port`` for IPv6.

    Raises:
        FormatError: ``data`` is neither 8 nor 20 bytes.
    """
    ip, port = unpack_host(data)
    return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"


def _pack_ip(ip: str) -> bytes:
    try:
        if ":" not in ip:
            return IPv4Address(ip).packed
        address = IPv6Address(ip)
    except AddressValueError as error:
        raise FormatError(f"not an IP address: {error}") from None
    return (address.ipv4_mapped or address).packed
