"""What the broker adds to a message's properties before it is stored.

``MSG_REGION``, ``TRACE_ON`` and ``CLUSTER`` are added behind what the producer wrote, and
``UNIQ_KEY`` if the producer gave none; ``POP_CK`` is taken out. (RocketMQ: SendMessageProcessor.java.)
"""

import os
from collections.abc import Callable
from typing import Final

from cometmq.broker.settings import BrokerSettings
from cometmq.errors import MessageIllegal
from cometmq.format import properties
from cometmq.format.java.java_hash import java_hash
from cometmq.format.message_id import UniqueIdMaker
from cometmq.format.properties import (
    CLUSTER,
    MAX_LENGTH,
    MSG_REGION,
    POP_CK,
    TRACE_ON,
    UNIQ_KEY,
    VALUE_END,
)
from cometmq.io.clock import Clock

PORT_SIZE: Final = 4
"""Bytes of the port behind a packed address."""

Completed = tuple[bytes, dict[str, str]]
"""The properties string to store, and the producer's own properties by name, UNIQ_KEY among them."""

_REPLACED: Final = frozenset({MSG_REGION, TRACE_ON, CLUSTER, POP_CK})


class Additions:
    """The properties that one broker adds.

    Args:
        region: of the broker.
        trace_on: whether clients shall trace messages.
        cluster: of the broker.
        make_unique_key: gives the next unique id.
    """

    def __init__(
        self, *, region: str, trace_on: bool, cluster: str, make_unique_key: Callable[[], str]
    ) -> None:
        added = {MSG_REGION: region, TRACE_ON: str(trace_on).lower(), CLUSTER: cluster}
        self._added = properties.encode(added).decode()
        self._make_unique_key = make_unique_key

    @property
    def added(self) -> bytes:
        """What is put behind a properties string that needs no other change."""
        return self._added.encode()

    def complete(self, text: str) -> Completed:
        """Complete the properties string of a message that was sent by itself.

        Raises MessageIllegal if it gets too long.
        """
        named = parse(text)
        if UNIQ_KEY in named and text[-1] == VALUE_END and _REPLACED.isdisjoint(named):
            data = (text + self._added).encode()
        else:
            named = {name: value for name, value in named.items() if name not in _REPLACED}
            named.setdefault(UNIQ_KEY, self._make_unique_key())
            data = properties.encode(named) + self._added.encode()
        if len(data) > MAX_LENGTH:
            raise MessageIllegal(
                f"the properties, with what the broker adds, take {len(data)} bytes: "
                f"the limit is {MAX_LENGTH}; send fewer or shorter ones"
            )
        return data, named


def additions_of(settings: BrokerSettings, host: bytes, clock: Clock) -> Additions:
    """Return what a broker adds whose address for clients is ``host``, packed with its port."""
    maker = UniqueIdMaker(host[:-PORT_SIZE], os.getpid(), java_hash(settings.identity.broker_name))
    return Additions(
        region=settings.region_id,
        trace_on=settings.trace_on,
        cluster=settings.identity.broker_cluster_name,
        make_unique_key=lambda: maker.make(clock.now_ms()),
    )


def parse(text: str) -> dict[str, str]:
    """Parse the properties string of a message by name.

    Raises MessageIllegal if it is too long to be stored: parsing takes the longer the more there is.
    """
    if len(text) > MAX_LENGTH:
        raise MessageIllegal(
            f"the properties have {len(text)} characters: the limit is {MAX_LENGTH} bytes; "
            "send fewer or shorter ones"
        )
    return properties.parse(text)
