"""A broker's endpoint of metrics and health, from before its store is open until it has stopped."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Final

from cometmq.broker.assembly import Assembly
from cometmq.broker.metrics import families
from cometmq.broker.metrics.lags import Lags
from cometmq.broker.metrics.storage import add_connections, add_replication, add_timer, read_store
from cometmq.broker.metrics.traffic import add_rates, read_traffic
from cometmq.broker.name_servers.registration import NameServers
from cometmq.broker.reads import read
from cometmq.broker.settings_by_subject import IdentitySettings, MetricsExporter, MetricsSettings
from cometmq.io.files import FileLayer
from cometmq.io.write_health import failures_of
from cometmq.metrics.endpoint import Endpoint, EndpointSource
from cometmq.metrics.family import Values
from cometmq.net.server import Server
from cometmq.store.store import MessageStore

STARTING: Final = "recovering: the store is being opened"
STOPPING: Final = "stopping"


class RunningBroker:
    """What a scrape reads of a broker that has started."""

    def __init__(
        self,
        parts: Assembly,
        store: MessageStore,
        files: FileLayer,
        server: Server,
        name_servers: NameServers,
        permission: int,
    ) -> None:
        self._parts = parts
        self._store = store
        self._files = files
        self._server = server
        self._name_servers = name_servers
        self._permission = permission
        tables = parts.consumers, parts.offsets, parts.beginnings, parts.in_flight
        self._lags = Lags(store, parts.topics, *tables)

    async def collect(self) -> Values:
        """Read all values; long tables in pieces, between which the loop does other work. Raises OSError."""
        parts, store, values = self._parts, self._store, Values()
        await parts.statistics.count()
        await read(store, read_traffic(values, parts.topics, parts.statistics))
        await read(store, self._lags.read_into(values))
        await read(store, read_store(values, store, self._files))
        add_rates(values, parts.rates)
        add_timer(values, parts.timed_messages, store.clock.now_ms())
        add_replication(values, parts.replication)
        add_connections(values, self._server, parts.producers, parts.consumers)
        for queue_id, count in parts.revive.behind().items():
            values.set(families.REVIVE_BEHIND, count, str(queue_id))
        values.set(families.WATERMARK, parts.sends.safe.count, "send")
        values.set(families.PERMISSION, self._permission)
        values.set(families.TOPICS, sum(1 for _ in parts.topics))
        values.set(families.GROUPS, sum(1 for _ in parts.groups))
        for state, addresses in zip(("configured", "registered"), self._name_servers.states(), strict=True):
            values.set(families.NAME_SERVERS, len(addresses), state)
        return values

    def reasons(self) -> list[str]:
        """Return why clients should not use this broker now."""
        reasons = []
        if (refusal := self._store.refusal_of_disk) is not None:
            reasons.append(f"not writable: {refusal}")
        reasons += self._parts.replication.problems()
        reasons += [f"disk: {failed}" for failed in failures_of(self._files)]
        configured, registered = self._name_servers.states()
        if configured and not registered:
            reasons.append(f"not registered with a name server: {', '.join(configured)}")
        return reasons


class Monitor:
    """The endpoint; it serves nothing if the settings have it off.

    Attributes:
        address: where it listens, ``host:port``; None if it does not.
    """

    def __init__(self, settings: MetricsSettings, identity: IdentitySettings) -> None:
        self.address: str | None = None
        self._running: RunningBroker | None = None
        self._state = STARTING
        self._scraping = asyncio.Lock()
        self._endpoint: Endpoint | None = None
        if settings.metrics_exporter_type is MetricsExporter.PROM:
            self._endpoint = Endpoint(
                settings.metrics_prom_exporter_host,
                settings.metrics_prom_exporter_port,
                EndpointSource(self._collect, self._reasons),
                labels=_labels(settings, identity),
                series_max=settings.metrics_otel_cardinality_limit,
                limits=settings.limits,
            )

    async def start(self, stack: AsyncExitStack) -> None:
        """Listen, until the stack is closed. Raises SettingsError if the address cannot be used."""
        if self._endpoint is not None:
            await self._endpoint.start()
            stack.push_async_callback(self._endpoint.stop)
            self.address = self._endpoint.address

    def show(self, running: RunningBroker, stack: AsyncExitStack) -> None:
        """Show a broker that has started, until the stack is closed."""
        self._running = running
        stack.push_async_callback(self._hide)

    async def _hide(self) -> None:
        self._state = STOPPING
        async with self._scraping:
            self._running = None

    async def _collect(self) -> Values:
        async with self._scraping:
            return Values() if self._running is None else await self._running.collect()

    def _reasons(self) -> Sequence[str]:
        if self._running is None or self._state == STOPPING:
            return [self._state]
        return self._running.reasons()


def _labels(settings: MetricsSettings, identity: IdentitySettings) -> Mapping[str, str]:
    """Return the labels that all series of a broker have."""
    own = {
        "cluster": identity.broker_cluster_name,
        "node_type": "broker",
        "node_id": identity.broker_name,
    }
    return dict(settings.labels) | own
