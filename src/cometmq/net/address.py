"""Addresses as text: ``host:port``, or ``[ip]:port`` for IPv6, and lists of them."""

import re
import socket
from typing import Final

from cometmq.arguments import TEXT, check
from cometmq.errors import SettingsError

PORT_MAX: Final = 65_535
HOST_LENGTH_MAX: Final = 253

_ADDRESS: Final = re.compile(r"(?:\[([\w:.%]+)\]|([^\s:/\[\]]+)):([0-9]{1,5})", re.ASCII)


def parse_address(text: str) -> tuple[str, int]:
    """Parse an address to host and port.

    Raises:
        SettingsError: the text is not an address; IllegalType if it is not a str.
    """
    check(TEXT, address=text)
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match[3]) > PORT_MAX or len(match[1] or match[2]) > HOST_LENGTH_MAX:
        shown = text if len(text) <= HOST_LENGTH_MAX else text[:HOST_LENGTH_MAX] + "…"
        raise SettingsError(f"address {shown!r}: write it as host:port or [ipv6]:port, port 0–{PORT_MAX}")
    return match[1] or match[2], int(match[3])


def parse_name_servers(text: str) -> list[str]:
    """Parse ``host:port;host:port`` into addresses. Raises SettingsError for an illegal one."""
    check(TEXT, name_servers=text)
    addresses = [address.strip() for address in text.split(";") if address.strip()]
    if not addresses:
        raise SettingsError(f"name servers {text!r}: give at least one host:port, several joined by ;")
    for address in addresses:
        parse_address(address)
    return addresses


def address_text(host: str, port: int) -> str:
    """Format an address so that ``parse_address`` can parse it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def free_port() -> int:
    """Return a TCP port of the loopback address that is free at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
