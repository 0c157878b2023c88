"""The clients of the proxy: their settings, their streams, and in which groups something is kept for them.

Whatever the proxy keeps for a client (its place in a group, the messages that it is handling) is kept for one
that is known here, so that it ends with the client: when that says that it leaves, or is not heard any more.
A client becomes known by its settings, or without any by a claim, as a client that was connected to another
proxy before sends its settings later, or never.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.outcomes import Failure
from cometmq.proxy.transport import Exchange

SILENT_S_MAX: Final = 120.0
"""After this time without a call and without a stream a client is forgotten."""
CLIENTS_MAX: Final = 100_000
"""Most clients that are known; calls of more that need it are refused."""
GROUPS_MAX: Final = 1_000
"""Most groups in which messages are received under one client id."""
CONSUMERS: Final = frozenset({pb.PUSH_CONSUMER, pb.SIMPLE_CONSUMER, pb.LITE_PUSH_CONSUMER})


@dataclass
class ConnectedClient:
    """A client that has sent its settings, or for which something is kept.

    Attributes:
        heard_at: when it was last heard, by the event loop's clock.
        settings: as the client has sent them; empty before.
        exchanges: its open telemetry streams.
        groups: the groups in which it has received messages.
    """

    client_id: str
    heard_at: float
    settings: pb.Settings = field(default_factory=pb.Settings)
    exchanges: list[Exchange] = field(default_factory=list)
    groups: set[str] = field(default_factory=set)

    @property
    def has_settings(self) -> bool:
        """Whether it has sent its settings."""
        return self.settings.HasField("subscription") or self.settings.HasField("publishing")

    @property
    def is_silent(self) -> bool:
        """Whether it has gone without a word."""
        limit = asyncio.get_running_loop().time() - SILENT_S_MAX
        return not self.exchanges and self.heard_at < limit

    @property
    def group(self) -> str | None:
        """The name of its consumer group; None of a producer."""
        return self.settings.subscription.group.name if self.settings.HasField("subscription") else None

    @property
    def all_groups(self) -> set[str]:
        """The names of its own consumer group, and of those in which it has received messages."""
        return self.groups if self.group is None else self.groups | {self.group}

    def publishes(self, topic: str) -> bool:
        """Return whether it is a producer of a topic."""
        return any(one.name == topic for one in self.settings.publishing.topics)


class Clients:
    """The clients by their ids."""

    def __init__(self) -> None:
        self._by_id: dict[str, ConnectedClient] = {}

    def __iter__(self) -> Iterator[ConnectedClient]:
        """Iterate over the clients that have sent their settings."""
        return iter([client for client in self._by_id.values() if client.has_settings])

    def find(self, client_id: str) -> ConnectedClient | None:
        """Return a client; None if it is not known."""
        return self._by_id.get(client_id)

    def update(self, client_id: str, settings: pb.Settings, exchange: Exchange) -> ConnectedClient:
        """Set a client's settings, which it has sent on a stream. Raises Failure if there are too many."""
        client = self._known(client_id)
        client.settings = settings
        if exchange not in client.exchanges:
            client.exchanges.append(exchange)
        return client

    def claim(self, client_id: str, group: str) -> None:
        """Know a client for which something of a group will be kept. Raises Failure if that is too much."""
        client = self._known(client_id)
        if group not in client.groups and len(client.groups) >= GROUPS_MAX:
            raise Failure(
                pb.TOO_MANY_REQUESTS,
                f"client {client_id!r} receives in {GROUPS_MAX} groups: use a client of its own for each",
            )
        client.groups.add(group)

    def heard(self, client_id: str) -> None:
        """Record that a client was heard, if it is known."""
        client = self._by_id.get(client_id)
        if client is not None:
            client.heard_at = asyncio.get_running_loop().time()

    def is_heard(self, client_id: str) -> bool:
        """Return whether a client is known, and has not gone without a word."""
        client = self._by_id.get(client_id)
        return client is not None and not client.is_silent

    def end(self, client_id: str, exchange: Exchange) -> None:
        """Forget a stream that has ended."""
        client = self._by_id.get(client_id)
        if client is not None and exchange in client.exchanges:
            client.exchanges.remove(exchange)

    def remove(self, client_id: str) -> None:
        """Forget a client."""
        self._by_id.pop(client_id, None)

    def silent(self) -> list[ConnectedClient]:
        """Return the clients that have gone without a word."""
        return [client for client in self._by_id.values() if client.is_silent]

    def has_member(self, group: str) -> bool:
        """Return whether a client is a member of a group, or has received messages in it."""
        return any(client.group == group or group in client.groups for client in self._by_id.values())

    def _known(self, client_id: str) -> ConnectedClient:
        """Return a client that was just heard. Raises Failure if it would be one too many."""
        now = asyncio.get_running_loop().time()
        client = self._by_id.get(client_id)
        if client is None:
            if len(self._by_id) >= CLIENTS_MAX:
                raise Failure(
                    pb.TOO_MANY_REQUESTS,
                    f"this proxy knows {CLIENTS_MAX} clients already: use another one",
                )
            client = self._by_id[client_id] = ConnectedClient(client_id, now)
        client.heard_at = now
        return client
