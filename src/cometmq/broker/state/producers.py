"""The members of each producer group, by connection. (RocketMQ: ProducerManager.java.)"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from cometmq.io.clock import Clock
from cometmq.wire.codes import LanguageCode

SILENCE_MS_MAX: Final = 120_000
"""How long after its last heartbeat a client counts as gone."""

ChannelT = TypeVar("ChannelT", bound=Hashable)


@dataclass(slots=True)
class ConnectedMember:
    """A client that is a member of a producer or consumer group.

    Attributes:
        client_id: ``ip@instance``.
        version: its RocketMQ release, an ordinal of ``wire.codes.Version``.
        heard_ms: when its last heartbeat came, on the monotonic clock.
    """

    client_id: str
    language: LanguageCode
    version: int
    heard_ms: int


class Producers(Generic[ChannelT]):
    """All producer groups; ``ChannelT`` identifies a connection."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._groups: dict[str, dict[ChannelT, ConnectedMember]] = {}
        self._clients: dict[str, dict[ChannelT, set[str]]] = {}

    def heartbeat(self, channel: ChannelT, group: str, member: ConnectedMember) -> None:
        """Register or update a member of ``group``."""
        known = self._groups.get(group, {}).get(channel)
        if known is not None and known.client_id != member.client_id:
            self.unregister(channel, group)
        self._groups.setdefault(group, {})[channel] = member
        self._clients.setdefault(member.client_id, {}).setdefault(channel, set()).add(group)

    def unregister(self, channel: ChannelT, group: str) -> None:
        """Remove a client from ``group``."""
        members = self._groups.get(group, {})
        member = members.pop(channel, None)
        if not members:
            self._groups.pop(group, None)
        if member is not None:
            self._leave(member.client_id, channel, group)

    def closed(self, channel: ChannelT) -> None:
        """Remove a closed connection from all groups."""
        for group in [group for group, members in self._groups.items() if channel in members]:
            self.unregister(channel, group)

    def groups(self) -> dict[str, dict[ChannelT, ConnectedMember]]:
        """Return the members of each group by connection, in a new dictionary of groups."""
        return dict(self._groups)

    def silence_ms(self, member: ConnectedMember) -> int:
        """Return how long ago a member's last heartbeat came, ms."""
        return self._clock.monotonic_ms() - member.heard_ms

    def members(self, group: str) -> dict[ChannelT, ConnectedMember]:
        """Return the members of ``group`` by connection; empty if the group is unknown."""
        return self._groups.get(group, {})

    def find(self, client_id: str) -> ChannelT | None:
        """Return the connection of a client, its newest one if it has several."""
        channels = self._clients.get(client_id)
        return next(reversed(channels)) if channels else None

    def silent(self, ms_max: int = SILENCE_MS_MAX) -> set[ChannelT]:
        """Return the connections whose client has sent no heartbeat for too long: they must be closed."""
        return silent(self._groups.values(), self._clock.monotonic_ms() - ms_max)

    def _leave(self, client_id: str, channel: ChannelT, group: str) -> None:
        """Remove a group from a client's connection, and the connection with its last group."""
        channels = self._clients[client_id]
        channels[channel].discard(group)
        if not channels[channel]:
            del channels[channel]
        if not channels:
            del self._clients[client_id]


def silent(groups: Iterable[Mapping[ChannelT, ConnectedMember]], oldest_ms: int) -> set[ChannelT]:
    """Return the connections of members whose last heartbeat came before a time."""
    return {
        channel for members in groups for channel, member in members.items() if member.heard_ms < oldest_ms
    }
