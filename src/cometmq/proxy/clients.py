"""The clients of the proxy: their settings, and the streams on which they can be asked."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.outcomes import Failure
from cometmq.proxy.transport import Exchange

SILENT_S_MAX: Final = 120.0
"""After this time without heartbeat and stream a client is forgotten."""
CONSUMERS: Final = frozenset({pb.PUSH_CONSUMER, pb.SIMPLE_CONSUMER, pb.LITE_PUSH_CONSUMER})


@dataclass
class ConnectedClient:
    """A client that has sent its settings.

    Attributes:
        settings: as the client has sent them.
        heard_at: when it was last heard, by the event loop's clock.
        exchanges: its open telemetry streams.
    """

    client_id: str
    settings: pb.Settings
    heard_at: float
    exchanges: list[Exchange] = field(default_factory=list)

    @property
    def group(self) -> str | None:
        """The name of its consumer group; None of a producer."""
        return self.settings.subscription.group.name if self.settings.HasField("subscription") else None

    def publishes(self, topic: str) -> bool:
        """Return whether it is a producer of a topic."""
        return any(one.name == topic for one in self.settings.publishing.topics)


class Clients:
    """The clients by their ids."""

    def __init__(self) -> None:
        self._by_id: dict[str, ConnectedClient] = {}

    def __iter__(self) -> Iterator[ConnectedClient]:
        """Iterate over all clients."""
        return iter(list(self._by_id.values()))

    def update(self, client_id: str, settings: pb.Settings, exchange: Exchange) -> ConnectedClient:
        """Set a client's settings, which it has sent on a stream."""
        now = asyncio.get_running_loop().time()
        client = self._by_id.get(client_id)
        if client is None:
            client = self._by_id[client_id] = ConnectedClient(client_id, settings, now)
        client.settings, client.heard_at = settings, now
        if exchange not in client.exchanges:
            client.exchanges.append(exchange)
        return client

    def heard(self, client_id: str) -> ConnectedClient:
        """Return a client that has just been heard. Raises Failure if it has sent no settings."""
        client = self._by_id.get(client_id)
        if client is None:
            raise Failure(
                pb.UNRECOGNIZED_CLIENT_TYPE,
                f"client {client_id!r} has sent no settings: open a telemetry stream",
            )
        client.heard_at = asyncio.get_running_loop().time()
        return client

    def is_heard(self, client_id: str) -> bool:
        """Return whether a client is known, and has not gone without a word."""
        client = self._by_id.get(client_id)
        return client is not None and not _is_silent(client)

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
        return [client for client in self if _is_silent(client)]

    def has_member(self, group: str) -> bool:
        """Return whether a client is a member of a group."""
        return any(client.group == group for client in self)


def _is_silent(client: ConnectedClient) -> bool:
    limit = asyncio.get_running_loop().time() - SILENT_S_MAX
    return not client.exchanges and client.heard_at < limit
