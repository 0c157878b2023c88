"""What a client is called: ``ip@instance``, by which brokers and the rest of its group know it.

Two processes of one name are one member to the broker: some queues are then consumed twice and some by
nobody. So the default instance is made of the process id and a random number; a name of one's own is for
broadcasting, where it names the file that holds the offsets. (RocketMQ: ClientConfig.java, buildMQClientId.)
"""

import os
import secrets
import socket

from cometmq.format.message_id import UniqueIdMaker


def client_id(instance: str | None = None) -> str:
    """Give a client's id: by default one that nobody else has."""
    address = socket.inet_ntoa(own_address())
    return f"{address}@{instance or f'{os.getpid()}#{secrets.randbits(48)}'}"


def unique_ids() -> UniqueIdMaker:
    """Make what makes the unique ids of one client's messages."""
    return UniqueIdMaker(own_address(), os.getpid(), secrets.randbits(31))


def own_address() -> bytes:
    """Give an IPv4 address of this machine; no packet is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            host: str = probe.getsockname()[0]
        except OSError:
            host = "127.0.0.1"  # no network at all
    return socket.inet_aton(host)
