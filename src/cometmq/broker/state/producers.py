"""The members of each producer group, by connection, and to whom their client ids belong.

Replies to requests are sent to a client id, and nobody but the producer knows whose request it was. So an id
belongs to the user who brings it first, and for ``SILENCE_MS_MAX`` after that user's last connection with it
is gone: other users' producers with the same id send, and end transactions, but get no replies. Without
authentication all producers are of one user. (RocketMQ: ProducerManager.java.)
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

from cometmq.io.clock import Clock
from cometmq.wire.codes import LanguageCode

SILENCE_MS_MAX: Final = 120_000
"""How long after its last heartbeat a client counts as gone."""
KEPT_IDS_MAX: Final = 10_000
"""Most client ids without a connection that are kept for their users."""

ChannelT = TypeVar("ChannelT", bound=Hashable)


@dataclass(slots=True)
class ConnectedMember:
    """A client that is a member of a producer or consumer group.

    Attributes:
        client_id: ``ip@instance``.
        version: its RocketMQ release, an ordinal of ``wire.codes.Version``.
        heard_ms: when its last heartbeat came, on the monotonic clock.
        user: who signed that; empty if nobody did.
    """

    client_id: str
    language: LanguageCode
    version: int
    heard_ms: int
    user: str = ""

    def is_same_client(self, other: "ConnectedMember") -> bool:
        """Return whether both are one client: two users' clients may have the same id."""
        return (self.client_id, self.user) == (other.client_id, other.user)


class _KeptId(NamedTuple):
    """A client id that is kept for a user without a connection."""

    user: str
    since_ms: int


class Producers(Generic[ChannelT]):
    """All producer groups; ``ChannelT`` identifies a connection."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._groups: dict[str, dict[ChannelT, ConnectedMember]] = {}
        self._clients: dict[tuple[str, str], dict[ChannelT, set[str]]] = {}  # by user and client id
        self._users: dict[str, str] = {}  # to whom the client ids belong of those connected
        self._kept: dict[str, _KeptId] = {}  # oldest first

    def heartbeat(self, channel: ChannelT, group: str, member: ConnectedMember) -> None:
        """Register or update a member of ``group``."""
        known = self._groups.get(group, {}).get(channel)
        if known is not None and not known.is_same_client(member):
            self.unregister(channel, group)
        self._groups.setdefault(group, {})[channel] = member
        name = member.user, member.client_id
        self._clients.setdefault(name, {}).setdefault(channel, set()).add(group)
        if member.client_id not in self._users:
            self._claim(member)

    def unregister(self, channel: ChannelT, group: str) -> None:
        """Remove a client from ``group``."""
        members = self._groups.get(group, {})
        member = members.pop(channel, None)
        if not members:
            self._groups.pop(group, None)
        if member is not None:
            self._leave(member, channel, group)

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
        """Return the connection of the client to which an id belongs, its newest one if it has several."""
        user = self._users.get(client_id)
        return None if user is None else next(reversed(self._clients[user, client_id]))

    def belongs(self, client_id: str, user: str) -> bool:
        """Return whether a client id belongs to a user, and a client of that is connected."""
        return self._users.get(client_id) == user

    def silent(self, ms_max: int = SILENCE_MS_MAX) -> set[ChannelT]:
        """Return the connections whose client has sent no heartbeat for too long: they must be closed."""
        return silent(self._groups.values(), self._clock.monotonic_ms() - ms_max)

    def _leave(self, member: ConnectedMember, channel: ChannelT, group: str) -> None:
        """Remove a group from a client's connection, and the connection with its last group."""
        user, client_id = member.user, member.client_id
        channels = self._clients[user, client_id]
        channels[channel].discard(group)
        if not channels[channel]:
            del channels[channel]
        if not channels:
            del self._clients[user, client_id]
            if self.belongs(client_id, user):
                del self._users[client_id]
                self._keep(client_id, user)

    def _claim(self, member: ConnectedMember) -> None:
        """Assign a client id to a member's user, unless it is kept for another one."""
        oldest_ms = self._clock.monotonic_ms() - SILENCE_MS_MAX
        while self._kept and next(iter(self._kept.values())).since_ms < oldest_ms:
            del self._kept[next(iter(self._kept))]
        kept = self._kept.get(member.client_id)
        if kept is None or kept.user == member.user:
            self._kept.pop(member.client_id, None)
            self._users[member.client_id] = member.user

    def _keep(self, client_id: str, user: str) -> None:
        """Keep a client id for a user who may come back; without users there is nobody to keep it from."""
        if user:
            self._kept[client_id] = _KeptId(user, self._clock.monotonic_ms())
            if len(self._kept) > KEPT_IDS_MAX:
                del self._kept[next(iter(self._kept))]


def silent(groups: Iterable[Mapping[ChannelT, ConnectedMember]], oldest_ms: int) -> set[ChannelT]:
    """Return the connections of members whose last heartbeat came before a time."""
    return {
        channel for members in groups for channel, member in members.items() if member.heard_ms < oldest_ms
    }
