"""Addresses as people and name servers write them: ``host:port``, or ``[ip]:port`` for IPv6."""

import errno
import re
import socket
from typing import Final

from cometmq.arguments import TEXT, check
from cometmq.errors import SettingsError

PORT_MAX: Final = 65_535
HOST_LENGTH_MAX: Final = 253

_ADDRESS: Final = re.compile(r"(?:\[([\w:.%]+)\]|([^\s:/\[\]]+)):([0-9]{1,5})", re.ASCII)


def parse_address(text: str) -> tuple[str, int]:
    """Give host and port.

    Raises:
        SettingsError: the text is no address; IllegalType if it is no text.
    """
    check(TEXT, address=text)
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


def remedy_of(error: OSError) -> str:
    """Say what is wrong with an address that cannot be listened on, and what to do about it."""
    if error.errno == errno.EADDRINUSE:
        return "another process listens there; stop it or choose another port"
    if error.errno == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror):
        return "it is no address of this machine; use one that is, or 127.0.0.1"
    if error.errno == errno.EACCES:
        return "not permitted; choose a port above 1023"
    return error.strerror or str(error)
