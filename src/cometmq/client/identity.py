"""Client ids, ``ip@instance``: they identify a client at brokers and within its group.

Two processes with the same id are one member to the broker: some queues are then consumed twice and some by
nobody. So the default instance is made of the process id and a random number. An instance chosen by the user
is for broadcasting, where it names the file of the offsets. (RocketMQ: ClientConfig.java, buildMQClientId.)
"""

import os
import secrets
import socket

from cometmq.format.message_id import UniqueIdMaker


def client_id(instance: str | None = None) -> str:
    """Return a client id, by default a unique one."""
    address = socket.inet_ntoa(own_address())
    return f"{address}@{instance or f'{os.getpid()}#{secrets.randbits(48)}'}"


def new_id_maker() -> UniqueIdMaker:
    """Create the maker of the unique ids of one client's messages."""
    return UniqueIdMaker(own_address(), os.getpid(), secrets.randbits(31))


def own_address() -> bytes:
    """Return an IPv4 address of this machine; no packet is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            host: str = probe.getsockname()[0]
        except OSError:
            host = "127.0.0.1"  # no network at all
    return socket.inet_aton(host)
