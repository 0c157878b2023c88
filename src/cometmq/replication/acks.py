"""Which slaves of a master are connected, and what they have acknowledged.

An acknowledgement is the end of a slave's log: all before it is there. The offset that enough slaves have
acknowledged only grows while they stay; if one leaves, sends wait for others.
"""

from collections.abc import Callable, Hashable, Mapping
from types import MappingProxyType
from typing import Final, Protocol

NOTHING: Final = -1
"""What a slave has acknowledged before its first report."""


class AcksOfSlaves(Protocol):
    """What the slaves of a master have acknowledged, with or without a controller.

    Attributes:
        on_change: functions that are called after each acknowledgement, and when a slave comes or goes.
    """

    on_change: list[Callable[[], None]]

    @property
    def by_slave(self) -> Mapping[Hashable, int]:
        """The end offset that each connected slave has acknowledged; NOTHING before its first report."""
        ...

    @property
    def replicated_offset(self) -> int:
        """The offset before which enough slaves have all; NOTHING if there are not enough slaves."""
        ...

    @property
    def in_sync_count(self) -> int:
        """How many slaves are in sync."""
        ...


class SlaveAcks:
    """The acknowledgements of the slaves of one master.

    Args:
        awaited: how many slaves must have acknowledged what is replicated.
        gap_max: bytes by which a slave may lag behind and still be in sync.
        end_offset: returns the end of the master's log.

    Attributes:
        on_change: functions that are called after each acknowledgement, and when a slave comes or goes.
    """

    def __init__(self, awaited: int, gap_max: int, end_offset: Callable[[], int]) -> None:
        self.on_change: list[Callable[[], None]] = []
        self._awaited = awaited
        self._gap_max = gap_max
        self._end_offset = end_offset
        self._acked: dict[Hashable, int] = {}

    @property
    def by_slave(self) -> Mapping[Hashable, int]:
        """The end offset that each connected slave has acknowledged; NOTHING before its first report."""
        return MappingProxyType(self._acked)

    @property
    def replicated_offset(self) -> int:
        """The offset before which enough slaves have all; NOTHING if there are not enough slaves."""
        if len(self._acked) < self._awaited:
            return NOTHING
        if not self._awaited:
            return self._end_offset()
        return sorted(self._acked.values(), reverse=True)[self._awaited - 1]

    @property
    def in_sync_count(self) -> int:
        """How many slaves lag behind by less than the gap."""
        return sum(map(self.is_in_sync, self._acked.values()))

    def is_in_sync(self, acked: int) -> bool:
        """Check whether a slave that has acknowledged an offset lags behind by less than the gap."""
        return acked != NOTHING and self._end_offset() - acked < self._gap_max

    def put(self, slave: Hashable, end_offset: int = NOTHING) -> None:
        """Set what a slave has acknowledged, who may be new."""
        self._acked[slave] = end_offset
        self._changed()

    def remove(self, slave: Hashable) -> None:
        """Remove a slave that is not connected any more."""
        if self._acked.pop(slave, None) is not None:
            self._changed()

    def _changed(self) -> None:
        for action in self.on_change:
            action()
