"""Refuse servers that strangers could reach and use, unless that is wanted; tell of those without TLS."""

import ipaddress
import socket

from cometmq.errors import SettingsError
from cometmq.net import inproc
from cometmq.net.listening import remedy_of
from cometmq.net.tls.settings import TlsMode


def is_loopback(host: str) -> bool:
    """Check whether only programs of this machine reach an address, or all addresses of a name.

    Raises SettingsError if it is no address and no known name.
    """
    if host == inproc.HOST:
        return True
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM) if host else []
    except (OSError, UnicodeError) as error:
        reason = remedy_of(error, 0) if isinstance(error, OSError) else str(error)
        raise SettingsError(f"cannot listen on {host}: {reason}") from None
    addresses = [ipaddress.ip_address(str(one[4][0]).partition("%")[0]) for one in found]
    return bool(addresses) and all(address.is_loopback for address in addresses)


def check_exposure(host: str, *, authentication: str, is_on: bool, insecure: bool, tls: TlsMode) -> str:
    """Check that strangers cannot use a server that will listen on ``host``, unless that is wanted.

    Args:
        authentication: what switches authentication on, for the error.
        is_on: whether it is on.
        insecure: whether strangers may use the server.
        tls: whether its port has TLS, without which signatures are of little use.

    Returns:
        What is insecure about the server, and the remedy behind a full stop, for its log and its status;
        empty if nothing is.

    Raises:
        SettingsError: strangers could use it; the text names the three ways on.
    """
    if (is_on and tls is not TlsMode.DISABLED) or is_loopback(host):
        return ""
    if is_on:
        return (
            f"insecure: requests to {host} are signed and not encrypted: whoever is on their way can read "
            "all, repeat requests and change what they do. Demand TLS by --tls-cert and --tls-mode enforcing "
            "(settings tlsServerCertPath, tlsServerMode), or listen on 127.0.0.1"
        )
    if not insecure:
        raise SettingsError(
            f"cannot listen on {host}: other machines could reach it, and whoever does could read, send and "
            f"delete everything. Listen on 127.0.0.1, or require signatures by {authentication}, or allow "
            "that by --insecure (setting insecure = true)"
        )
    return (
        f"insecure: whoever reaches {host} can read, send and delete everything, without a signature. "
        f"Require signatures by {authentication}, or listen on 127.0.0.1"
    )
