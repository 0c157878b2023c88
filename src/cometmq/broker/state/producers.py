"""Who produces: the members of each producer group, by connection. (RocketMQ: ProducerManager.java.)"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from cometmq.io.clock import Clock
from cometmq.wire.codes import LanguageCode

SILENCE_MS_MAX: Final = 120_000
"""A client that has sent no heartbeat for so long is gone."""

ChannelT = TypeVar("ChannelT", bound=Hashable)


@dataclass(slots=True)
class ProducerMember:
    """A client in a group.

    Attributes:
        client_id: what it calls itself, ``ip@instance``.
        version: the release that it speaks, an ordinal of ``wire.codes.Version``.
        heard_ms: when its last heartbeat came, on the monotonic clock.
    """

    client_id: str
    language: LanguageCode
    version: int
    heard_ms: int


class Producers(Generic[ChannelT]):
    """All producer groups; ``ChannelT`` is what stands for a connection."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._groups: dict[str, dict[ChannelT, ProducerMember]] = {}
        self._clients: dict[str, dict[ChannelT, set[str]]] = {}

    def heartbeat(self, channel: ChannelT, group: str, member: ProducerMember) -> None:
        """Note that a client is in ``group``."""
        known = self._groups.get(group, {}).get(channel)
        if known is not None and known.client_id != member.client_id:
            self.unregister(channel, group)
        self._groups.setdefault(group, {})[channel] = member
        self._clients.setdefault(member.client_id, {}).setdefault(channel, set()).add(group)

    def unregister(self, channel: ChannelT, group: str) -> None:
        """Note that a client left ``group``."""
        members = self._groups.get(group, {})
        member = members.pop(channel, None)
        if not members:
            self._groups.pop(group, None)
        if member is not None:
            self._leave(member.client_id, channel, group)

    def closed(self, channel: ChannelT) -> None:
        """Note that a connection is gone."""
        for group in [group for group, members in self._groups.items() if channel in members]:
            self.unregister(channel, group)

    def members(self, group: str) -> dict[ChannelT, ProducerMember]:
        """Give the members of ``group`` by connection; none if nobody knows it."""
        return self._groups.get(group, {})

    def find(self, client_id: str) -> ChannelT | None:
        """Give the connection of a client; of several the one that came last."""
        channels = self._clients.get(client_id)
        return next(reversed(channels)) if channels else None

    def silent(self) -> set[ChannelT]:
        """Give the connections whose client has been silent for too long: they must be closed."""
        oldest = self._clock.monotonic_ms() - SILENCE_MS_MAX
        return {
            channel
            for members in self._groups.values()
            for channel, member in members.items()
            if member.heard_ms < oldest
        }

    def _leave(self, client_id: str, channel: ChannelT, group: str) -> None:
        """Note that a client has left a group; with the last one its connection is forgotten."""
        channels = self._clients[client_id]
        channels[channel].discard(group)
        if not channels[channel]:
            del channels[channel]
        if not channels:
            del self._clients[client_id]
