"""What a name server knows: brokers, their topics, and when each broker was last heard of.

Theory of operation: a broker *registers* with all its topics, again and again; each time, and at each
*heartbeat*, it lives for another ``heartbeat_timeout_ms``. It goes, with its topics, when it
*unregisters*, when the connection that it registered over is lost, or when it *expires*. Nothing else
adds a broker, and nothing is kept on disk: after a restart the brokers register anew.

Brokers of one name form a group: a master (id 0) and its slaves. Topics belong to the group; the
master's table counts, or, where acting masters are enabled, that of the slave with the least id.

Events come in with the time and give values; values given out never change afterwards.

RocketMQ: ``RouteInfoManager.java``.
"""

import re
from collections.abc import Generator, Hashable, Iterable
from difflib import get_close_matches
from itertools import islice
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from cometmq.errors import IllegalName, SettingsError
from cometmq.format.layout import valid_topic
from cometmq.net.address import parse_address
from cometmq.wire.bodies import (
    BrokerData,
    ClusterInfo,
    DataVersion,
    QueueData,
    Registration,
    TopicConfig,
    TopicRoute,
)
from cometmq.wire.headers import BrokerHeader, RegisterBrokerHeader

HEARTBEAT_TIMEOUT_MS: Final = 120_000
MASTER_ID: Final = 0
READ: Final = 4
WRITE: Final = 2
NAME_LENGTH_MAX: Final = 255
PART_MAX: Final = 2_000
"""So many topics of a registration are noted within one turn of the loop."""
NEAREST_CANDIDATES_MAX: Final = 200
"""How many names are compared in full to find the nearest: it takes some µs each."""

_NAME: Final = re.compile(r"[%|a-zA-Z0-9_.@-]+")
"""With an @ for brokers that are called by their machine room: ``room@broker``."""


class Registered(NamedTuple):
    """What a broker's registration came to.

    Attributes:
        ha_server_addr: where a slave copies from, if its master is known.
        master_addr: where clients reach that master.
        new: the broker was not known before.
        refused: topics with illegal names, which were passed over.
    """

    ha_server_addr: str | None = None
    master_addr: str | None = None
    new: bool = False
    refused: tuple[str, ...] = ()


class Gone(NamedTuple):
    """A broker that was removed, and the connection that it had registered over."""

    broker_name: str
    addr: str
    source: Hashable


class Routes:
    """The tables. Times are ms of any clock that never goes back."""

    def __init__(self) -> None:
        self._topics: dict[str, dict[str, QueueData]] = {}  # topic → broker name → its queues
        self._brokers: dict[str, BrokerData] = {}  # broker name → addresses by broker id
        self._live: dict[tuple[str, str], _Live] = {}  # cluster and address → last word
        self._mappings: dict[str, dict[str, Any]] = {}  # static topic → broker name → RocketMQ's own value

    def register(
        self, header: RegisterBrokerHeader, registration: Registration, source: Hashable, now_ms: int
    ) -> Registered | None:
        """Do all of ``registering`` at once."""
        steps = self.registering(header, registration, source, now_ms)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                registered: Registered | None = end.value
                return registered

    def registering(
        self, header: RegisterBrokerHeader, registration: Registration, source: Hashable, now_ms: int
    ) -> Generator[None, None, Registered | None]:
        """Note a broker and its topics; None if it sends one changed topic and was not known before.

        It yields between parts of many topics, for others to be answered.

        Args:
            source: the connection that this came over.

        Raises:
            IllegalName: the name of the broker or its cluster, or its address, cannot be used.
        """
        _check_name("broker name", header.broker_name)
        _check_name("cluster name", header.cluster_name)
        _check_address(header.broker_addr)
        name, broker_id, key = header.broker_name, header.broker_id, (header.cluster_name, header.broker_addr)
        table = registration.table
        known = self._brokers.get(name)
        # A slave that becomes master keeps its address: that it had another id is over.
        addrs = {
            other_id: addr
            for other_id, addr in (known.addrs if known else {}).items()
            if addr != header.broker_addr or other_id == broker_id
        }
        if self._outranked(header, addrs.get(broker_id), table.data_version):
            self._live.pop(key, None)
            return Registered()
        new = broker_id not in addrs
        if new and len(table.topics) == 1:
            return None
        addrs[broker_id] = header.broker_addr
        self._brokers[name] = BrokerData(
            dict(sorted(addrs.items())),
            name,
            header.cluster_name,
            bool(header.enable_acting_master),
            header.zone_name,
        )
        refused: tuple[str, ...] = ()
        stands_in = header.enable_acting_master is not None and broker_id == min(addrs)
        if broker_id == MASTER_ID or stands_in:
            changed = new or self.data_version(*key) != table.data_version
            self._note_alive(key, header, table.data_version, source, now_ms)
            wiped = WRITE if broker_id != MASTER_ID and header.enable_acting_master else 0
            topics = iter(table.topics.values())
            while part := tuple(islice(topics, PART_MAX)):
                refused += self._take_topics(name, part, everything=changed, wiped=wiped)
                if len(part) == PART_MAX:
                    yield
            if changed:
                for topic, mapping in (table.mapping_infos or {}).items():
                    self._mappings.setdefault(topic, {})[name] = mapping
        self._note_alive(key, header, table.data_version, source, now_ms)
        master = self._live.get((header.cluster_name, addrs.get(MASTER_ID, "")))
        if broker_id == MASTER_ID or master is None:
            return Registered(new=new, refused=refused)
        return Registered(master.ha_server_addr, addrs[MASTER_ID], new, refused)

    def heartbeat(self, cluster: str, addr: str, now_ms: int) -> None:
        """Note that a broker lives."""
        live = self._live.get((cluster, addr))
        if live is not None:
            self._live[cluster, addr] = live._replace(heard_ms=now_ms)

    def data_version(self, cluster: str, addr: str) -> DataVersion | None:
        """Give the version of the topics that a broker last registered."""
        live = self._live.get((cluster, addr))
        return live.data_version if live else None

    def unregister(self, header: BrokerHeader) -> None:
        """Forget a broker that says goodbye."""
        self._forget(header.broker_name, header.cluster_name, header.broker_addr)

    def disconnect(self, source: Hashable) -> list[Gone]:
        """Forget the brokers that had registered over a connection that is lost."""
        return self._forget_all([key for key, live in self._live.items() if live.source == source])

    def expire(self, now_ms: int) -> list[Gone]:
        """Forget the brokers that have not been heard of for too long."""
        return self._forget_all(
            [key for key, live in self._live.items() if now_ms - live.heard_ms > live.timeout_ms]
        )

    def route(self, topic: str) -> TopicRoute | None:
        """Give a topic's queues, and the brokers that have them."""
        queues = self._topics.get(topic, {})
        brokers = [self._brokers[name] for name in queues if name in self._brokers]
        if not brokers:
            return None
        mappings = self._mappings.get(topic)
        return TopicRoute(brokers, list(queues.values()), mappings=dict(mappings) if mappings else None)

    def cluster_info(self) -> ClusterInfo:
        """Give all brokers."""
        clusters: dict[str, list[str]] = {}
        for name, broker in self._brokers.items():
            clusters.setdefault(broker.cluster, []).append(name)
        return ClusterInfo(dict(self._brokers), clusters)

    def broker(self, name: str) -> BrokerData | None:
        """Give the brokers of one name."""
        return self._brokers.get(name)

    def topics(self, cluster: str | None = None) -> list[str]:
        """Give the names of all topics, or of those that a cluster has."""
        if cluster is None:
            return sorted(self._topics)
        names = {name for name, broker in self._brokers.items() if broker.cluster == cluster}
        return sorted(topic for topic, queues in self._topics.items() if names & queues.keys())

    def topics_with_flags(self, *, wanted: int, unwanted: int = 0) -> list[str]:
        """Give the topics whose system flags have all of ``wanted`` and none of ``unwanted``."""
        mask = wanted | unwanted
        return sorted(
            topic
            for topic, queues in self._topics.items()
            if queues and next(iter(queues.values())).sys_flag & mask == wanted
        )

    def nearest_topic(self, topic: str) -> str | None:
        """Give the known topic whose name looks most like ``topic``, if any does."""
        first, last = topic[:1].lower(), topic[-1:].lower()
        candidates = (
            name
            for name in self._topics
            if abs(len(name) - len(topic)) <= 2 and (name[0].lower() == first or name[-1].lower() == last)
        )
        by_lower = {name.lower(): name for name in islice(candidates, NEAREST_CANDIDATES_MAX)}
        close = get_close_matches(topic.lower(), by_lower, n=1, cutoff=0.75)
        return by_lower[close[0]] if close else None

    def add_topic(self, topic: str, queues: Iterable[QueueData]) -> bool:
        """Note the queues of one topic; False, and nothing is noted, if a broker is not known.

        Raises:
            IllegalName: the topic's name cannot be used.
        """
        valid_topic(topic)
        added = {queue.broker_name: queue for queue in queues}
        if not added or not added.keys() <= self._brokers.keys():
            return False
        self._topics.setdefault(topic, {}).update(added)
        return True

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Forget a topic, everywhere or in one cluster, until a broker registers it again."""
        for name in list(self._topics.get(topic, ())):
            broker = self._brokers.get(name)
            if cluster is None or (broker is not None and broker.cluster == cluster):
                self._remove_queues(topic, name)

    def set_writable(self, broker_name: str, *, writable: bool) -> int:
        """Let clients send to a broker's topics, or not; give how many topics it has."""
        count = 0
        for queues in self._topics.values():
            if broker_name in queues:
                perm = READ | WRITE if writable else queues[broker_name].perm & ~WRITE
                queues[broker_name] = replace(queues[broker_name], perm=perm)
                count += 1
        return count

    def _note_alive(
        self,
        key: tuple[str, str],
        header: RegisterBrokerHeader,
        version: DataVersion,
        source: Hashable,
        now_ms: int,
    ) -> None:
        timeout_ms = header.heartbeat_timeout_ms
        self._live[key] = _Live(
            now_ms,
            HEARTBEAT_TIMEOUT_MS if timeout_ms is None else timeout_ms,
            version,
            source,
            header.ha_server_addr,
            header.broker_name,
        )

    def _outranked(self, header: RegisterBrokerHeader, addr: str | None, version: DataVersion) -> bool:
        """Whether another process holds this broker's place, with a later state of the same group."""
        if addr is None or addr == header.broker_addr:
            return False
        held = self.data_version(header.cluster_name, addr)
        return held is not None and held.state_version > version.state_version

    def _take_topics(
        self, name: str, configs: Iterable[TopicConfig], *, everything: bool, wiped: int
    ) -> tuple[str, ...]:
        """Note a broker's topics, or only those it did not have here; give those with illegal names."""
        refused = []
        for config in configs:
            try:
                valid_topic(config.topic)
            except IllegalName:
                refused.append(config.topic)
                continue
            queues = self._topics.setdefault(config.topic, {})
            if everything or name not in queues:
                queues[name] = QueueData(
                    name,
                    config.perm & ~wiped,
                    config.read_queue_count,
                    config.write_queue_count,
                    config.sys_flag,
                )
        return tuple(refused)

    def _forget_all(self, keys: list[tuple[str, str]]) -> list[Gone]:
        gone = []
        for cluster, addr in keys:
            live = self._live[cluster, addr]
            gone.append(Gone(live.broker_name, addr, live.source))
            self._forget(live.broker_name, cluster, addr)
        return gone

    def _forget(self, name: str, cluster: str, addr: str) -> None:
        self._live.pop((cluster, addr), None)
        broker = self._brokers.get(name)
        if broker is None or addr not in broker.addrs.values():
            return
        addrs = {broker_id: other for broker_id, other in broker.addrs.items() if other != addr}
        if addrs:
            self._brokers[name] = replace(broker, addrs=addrs)
            if broker.acting_master and MASTER_ID not in addrs:
                self.set_writable(name, writable=False)
            return
        del self._brokers[name]
        for topic in [topic for topic, queues in self._topics.items() if name in queues]:
            self._remove_queues(topic, name)

    def _remove_queues(self, topic: str, broker_name: str) -> None:
        for table in (self._topics, self._mappings):
            entries = table.get(topic, {})
            entries.pop(broker_name, None)
            if not entries:
                table.pop(topic, None)


class _Live(NamedTuple):
    """A broker's last word.

    Attributes:
        heard_ms: when.
        timeout_ms: how long it lives from then.
        data_version: of the topics that it registered.
        source: the connection that it registered over.
        ha_server_addr: where its slaves copy from.
        broker_name: the name of its group.
    """

    heard_ms: int
    timeout_ms: int
    data_version: DataVersion
    source: Hashable
    ha_server_addr: str
    broker_name: str


def _check_name(kind: str, name: str) -> None:
    if len(name) > NAME_LENGTH_MAX or not _NAME.fullmatch(name):
        shown = name[:40]
        raise IllegalName(
            f"{kind} {shown!r}: use 1 to {NAME_LENGTH_MAX} of the characters a-z A-Z 0-9 _ - . % | @"
        )


def _check_address(addr: str) -> None:
    try:
        parse_address(addr)
    except SettingsError as error:
        raise IllegalName(f"broker {error}") from None
