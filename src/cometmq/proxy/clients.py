"""The clients of the proxy: their settings, their streams, and in which groups something is kept for them.

Whatever the proxy keeps for a client (its place in a group, the messages that it is handling) is kept for one
that is known here, so that it ends with the client: when that says that it leaves, or is not heard any more.
A client becomes known by its settings, or without any by a claim, as a client that was connected to another
proxy before sends its settings later, or never.

A client belongs to the user who has signed its calls: under its id another user has a client of its own.
What is sent to a client on a stream needs permissions, too; these are checked each time, as those of a call
of that user from where the stream comes.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from cometmq.errors import CometMQError
from cometmq.logs import get_logger
from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.access import Admit, admit_all
from cometmq.proxy.names import check_count
from cometmq.proxy.outcomes import Failure
from cometmq.proxy.settings import ProxySettings
from cometmq.proxy.transport import SETTINGS, Call, ClientKey, Exchange

SILENT_S_MAX: Final = 120.0
"""After this time without a call and without a stream a client is forgotten."""
CLIENTS_MAX: Final = 100_000
"""Most clients that are known; calls of more that need it are refused."""
GROUPS_MAX: Final = 1_000
"""Most groups in which one client receives messages."""
CONSUMERS: Final = frozenset({pb.PUSH_CONSUMER, pb.SIMPLE_CONSUMER, pb.LITE_PUSH_CONSUMER})

_log = get_logger(__name__)


@dataclass
class ConnectedClient:
    """A client that has sent its settings, or for which something is kept.

    Attributes:
        heard_at: when it was last heard, by the event loop's clock.
        settings: as the client has sent them; empty before.
        exchanges: its open telemetry streams, each with the call that opened it.
        groups: the groups in which it has received messages.
    """

    key: ClientKey
    heard_at: float
    settings: pb.Settings = field(default_factory=pb.Settings)
    exchanges: dict[Exchange, Call] = field(default_factory=dict)
    groups: set[str] = field(default_factory=set)

    @property
    def client_id(self) -> str:
        """Its id, which a client of another user may have, too."""
        return self.key.client_id

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
    """The clients by their users and ids.

    Args:
        admit: checks calls, also those that stand for what is sent to a client.
        limits: bound what is kept of their settings.
    """

    def __init__(self, admit: Admit = admit_all, limits: ProxySettings = SETTINGS) -> None:
        self._admit = admit
        self._limits = limits
        self._by_key: dict[ClientKey, ConnectedClient] = {}
        self._settings_bytes = 0

    def __iter__(self) -> Iterator[ConnectedClient]:
        """Iterate over the clients that have sent their settings."""
        return iter([client for client in self._by_key.values() if client.has_settings])

    def find(self, key: ClientKey) -> ConnectedClient | None:
        """Return a client; None if it is not known."""
        return self._by_key.get(key)

    def update(self, call: Call, settings: pb.Settings, exchange: Exchange) -> ConnectedClient:
        """Set a client's settings, which it has sent on a stream.

        Raises Failure if they, or those of all clients, or the clients are too many.
        """
        self._check_settings(settings, self._by_key.get(call.client))
        client = self._known(call.client)
        self.restore(client, settings)
        client.exchanges[exchange] = call
        return client

    def restore(self, client: ConnectedClient, settings: pb.Settings) -> None:
        """Set a client's settings to those that it has had before."""
        if self._by_key.get(client.key) is client:
            self._settings_bytes += settings.ByteSize() - client.settings.ByteSize()
        client.settings = settings

    async def find_exchange(self, client: ConnectedClient, rpc: str, request: Any) -> Exchange | None:
        """Return the newest stream of a client whose user may get something by it now; None for none.

        The user may if it may call an rpc with a request: what is sent needs the same permissions.
        """
        for exchange, call in reversed(list(client.exchanges.items())):
            try:
                await self._admit(rpc, request, call)
            except CometMQError as error:
                _log.info("nothing is sent to client %r: %s", client.client_id, error)
            else:
                if exchange in client.exchanges:  # it may have ended meanwhile
                    return exchange
        return None

    def claim(self, key: ClientKey, group: str) -> None:
        """Know a client for which something of a group will be kept. Raises Failure if that is too much."""
        client = self._known(key)
        if group not in client.groups and len(client.groups) >= GROUPS_MAX:
            raise Failure(
                pb.TOO_MANY_REQUESTS,
                f"client {key.client_id!r} receives in {GROUPS_MAX} groups: use a client of its own for each",
            )
        client.groups.add(group)

    def heard(self, key: ClientKey) -> None:
        """Record that a client was heard, if it is known."""
        client = self._by_key.get(key)
        if client is not None:
            client.heard_at = asyncio.get_running_loop().time()

    def is_heard(self, key: ClientKey) -> bool:
        """Return whether a client is known, and has not gone without a word."""
        client = self._by_key.get(key)
        return client is not None and not client.is_silent

    def end(self, key: ClientKey, exchange: Exchange) -> None:
        """Forget a stream that has ended."""
        client = self._by_key.get(key)
        if client is not None:
            client.exchanges.pop(exchange, None)

    def remove(self, key: ClientKey) -> None:
        """Forget a client."""
        client = self._by_key.pop(key, None)
        if client is not None:
            self._settings_bytes -= client.settings.ByteSize()

    def silent(self) -> list[ConnectedClient]:
        """Return the clients that have gone without a word."""
        return [client for client in self._by_key.values() if client.is_silent]

    def has_member(self, group: str) -> bool:
        """Return whether a client is a member of a group, or has received messages in it."""
        return any(client.group == group or group in client.groups for client in self._by_key.values())

    def _check_settings(self, settings: pb.Settings, client: ConnectedClient | None) -> None:
        """Check that a client's new settings may be kept. Raises Failure."""
        limits, size = self._limits, settings.ByteSize()
        if size > (most := limits.settings_bytes_max):
            raise Failure(
                pb.BAD_REQUEST, f"settings of {size} bytes: at most {most} are possible (settingsBytesMax)"
            )
        count = len(settings.publishing.topics) + len(settings.subscription.subscriptions)
        check_count(count, limits.request_items_max, "topics and subscriptions")
        former = 0 if client is None else client.settings.ByteSize()
        if size > former and self._settings_bytes + size - former > limits.settings_bytes_total_max:
            raise Failure(
                pb.TOO_MANY_REQUESTS,
                f"this proxy keeps {self._settings_bytes} bytes of settings already: use another one "
                "(settingsBytesTotalMax)",
            )

    def _known(self, key: ClientKey) -> ConnectedClient:
        """Return a client that was just heard. Raises Failure if it would be one too many."""
        now = asyncio.get_running_loop().time()
        client = self._by_key.get(key)
        if client is None:
            if len(self._by_key) >= CLIENTS_MAX:
                raise Failure(
                    pb.TOO_MANY_REQUESTS,
                    f"this proxy knows {CLIENTS_MAX} clients already: use another one",
                )
            client = self._by_key[key] = ConnectedClient(key, now)
        client.heard_at = now
        return client
