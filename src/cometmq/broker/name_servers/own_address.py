"""The IP address under which clients reach this broker, and who else does."""

import ipaddress
import socket
from typing import Final

from cometmq.broker.settings import BrokerSettings
from cometmq.broker.settings_by_subject import NetworkSettings
from cometmq.errors import SettingsError
from cometmq.net.address import parse_address
from cometmq.net.exposure import check_exposure

LOOPBACK: Final = "127.0.0.1"
_ALL: Final = ("0.0.0.0", "::")  # noqa: S104 compared with, not listened at

_SOMEWHERE: Final = ("192.0.2.1", 9)
"""An address of a network that is only for examples: the route to it is the default route."""


def own_ip(settings: NetworkSettings) -> str:
    """Return brokerIP1; if that is not set bindAddress; if that is unspecified the address for name servers.

    Raises SettingsError if brokerIP1 or bindAddress is no address and no known name.
    """
    if settings.broker_ip:
        return _resolved(settings.broker_ip, "brokerIP1")
    bound = ipaddress.ip_address(_resolved(settings.bind_address, "bindAddress"))
    if not bound.is_unspecified:
        return str(bound)
    name_servers = [parse_address(address) for address in settings.name_servers]
    # A name server of this process may have the address of all interfaces, which has no route.
    return _source_address([*(peer for peer in name_servers if peer[0] not in _ALL), _SOMEWHERE])


def ha_ip(settings: NetworkSettings) -> str | None:
    """Return brokerIP2, the address for slaves; None if it is the one for clients.

    Raises SettingsError if it is no address and no known name.
    """
    return _resolved(settings.broker_ha_ip, "brokerIP2") if settings.broker_ha_ip else None


def exposure(settings: BrokerSettings) -> str:
    """Return what is insecure about the broker's address, and the remedy; empty if nothing is.

    Raises SettingsError if strangers could use the broker, which ``insecure`` allows, or for no address.
    """
    return check_exposure(
        settings.network.bind_address,
        authentication="authenticationEnabled = true",
        is_on=settings.auth.authentication_enabled,
        insecure=settings.auth.insecure,
        tls=settings.tls.tls_mode,
    )


def _resolved(host: str, setting: str) -> str:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise SettingsError(f"setting {setting} = {host!r}: {error}; give an IP address") from None
    return str(found[0][4][0]).partition("%")[0]


def _source_address(peers: list[tuple[str, int]]) -> str:
    """Return the machine's source address for the first peer that it has a route to; 127.0.0.1 if none."""
    for host, port in peers:
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
            with socket.socket(family, kind, protocol) as probe:
                probe.connect(address)  # sends nothing: it only chooses a route
                return str(probe.getsockname()[0])
        except OSError:
            continue
    return LOOPBACK
