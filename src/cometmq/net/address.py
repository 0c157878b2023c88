"""Addresses as people and name servers write them: ``host:port``, or ``[ip]:port`` for IPv6."""

import re
import socket
from typing import Final

from cometmq.errors import SettingsError

PORT_MAX: Final = 65_535
HOST_LENGTH_MAX: Final = 253

_ADDRESS: Final = re.compile(r"(?:\[([\w:.%]+)\]|([^\s:/\[\]]+)):([0-9]{1,5})", re.ASCII)


def parse_address(text: str) -> tuple[str, int]:
    """Give host and port.

    Raises:
        SettingsError: the text is no address.
    """
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match[3]) > PORT_MAX or len(match[1] or match[2]) > HOST_LENGTH_MAX:
        shown = text if len(text) <= HOST_LENGTH_MAX else text[:HOST_LENGTH_MAX] + "…"
        raise SettingsError(f"address {shown!r}: write it as host:port or [ipv6]:port, port 0–{PORT_MAX}")
    return match[1] or match[2], int(match[3])


def address_text(host: str, port: int) -> str:
    """Write an address as ``parse_address`` reads it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def free_port() -> int:
    """Give a TCP port of the loopback address that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
