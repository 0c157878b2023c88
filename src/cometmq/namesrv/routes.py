"""The route table of a name server: brokers, their topics, and the time of each broker's last heartbeat.

Theory of operation: a broker *registers* with all its topics, repeatedly; after each registration and each
*heartbeat* it stays for another ``heartbeat_timeout_ms``. It is removed, with its topics, when it
*unregisters*, when the connection over which it registered is lost, or when it *expires*. Nothing else
adds a broker, and nothing is kept on disk: after a restart the brokers register again.

Brokers of one name form a group: a master (id 0) and its slaves. Topics belong to the group; the topic
table of the master counts, or, if acting masters are enabled, that of the slave with the lowest id. While
there is no master, routes have that slave as an *acting* one, for readers: under id 0, not writable.

Events are method calls with the time; returned values never change afterwards.

RocketMQ: ``RouteInfoManager.java``.
"""

import re
from collections.abc import Generator, Hashable, Iterable, Mapping
from difflib import get_close_matches
from itertools import islice
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from cometmq.cluster.route import QueueCounts
from cometmq.errors import FormatError, IllegalName, SettingsError
from cometmq.format.layout import valid_topic
from cometmq.net.address import parse_address
from cometmq.wire import bodies
from cometmq.wire.headers import BrokerHeader, RegisterBrokerHeader

HEARTBEAT_TIMEOUT_MS: Final = 120_000
MASTER_ID: Final = 0
READ: Final = 4
WRITE: Final = 2
NAME_LENGTH_MAX: Final = 255
PART_MAX: Final = 2_000
"""Most topics of a registration processed in one turn of the loop."""
NEAREST_CANDIDATES_MAX: Final = 200
"""Most names compared in full to find the nearest one: each takes some µs."""

_NAME: Final = re.compile(r"[%|a-zA-Z0-9_.@+-]+")
"""Includes @ for brokers named with their machine room, ``room@broker``, and + for retry topics of pops."""


class RegistrationResult(NamedTuple):
    """The result of a broker's registration.

    Attributes:
        ha_server_addr: the address from which a slave replicates, if its master is known.
        master_addr: the master's address for clients.
        new: whether the broker was unknown before.
        left_out: topics that were ignored, each with the reason; again only once the broker's table has
            changed.
        displaced: the address of another broker of this name and id that was registered until now, if any.
    """

    ha_server_addr: str | None = None
    master_addr: str | None = None
    new: bool = False
    left_out: tuple[str, ...] = ()
    displaced: str | None = None


class RemovedBroker(NamedTuple):
    """A removed broker, and the connection over which it had registered."""

    broker_name: str
    addr: str
    source: Hashable


class RouteTable:
    """The tables of brokers and topics. All times are ms of one monotonic clock.

    Args:
        acting_masters: whether routes have acting masters, of brokers that allow it.
        limits: how many queues a topic may have, and how many topics there may be.
    """

    def __init__(self, *, acting_masters: bool = False, limits: bodies.BodyLimits = bodies.LIMITS) -> None:
        self._acting_masters = acting_masters
        self._limits = limits
        self._entry_count = 0  # of ``_topics``: topics, counted once for each broker
        self._topics: dict[str, dict[str, bodies.QueueData]] = {}  # topic → broker name → its queues
        self._brokers: dict[str, bodies.BrokerData] = {}  # broker name → addresses by broker id
        self._live: dict[tuple[str, str], _Live] = {}  # cluster and address → last registration
        self._mappings: dict[str, dict[str, Any]] = {}  # static topic → broker name → RocketMQ's own value

    def register(
        self, header: RegisterBrokerHeader, registration: bodies.Registration, source: Hashable, now_ms: int
    ) -> RegistrationResult | None:
        """Register a broker and its topics in one call: see ``registering``."""
        steps = self.registering(header, registration, source, now_ms)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                registered: RegistrationResult | None = end.value
                return registered

    def registering(
        self, header: RegisterBrokerHeader, registration: bodies.Registration, source: Hashable, now_ms: int
    ) -> Generator[None, None, RegistrationResult | None]:
        """Register a broker and its topics; None if it is unknown and sends a single changed topic.

        It yields between parts of many topics, so that other requests can be answered.

        Args:
            source: the connection over which the registration came.

        Raises:
            IllegalName: the name of the broker or its cluster, or its address, cannot be used.
        """
        _check_name("broker name", header.broker_name)
        _check_name("cluster name", header.cluster_name)
        _check_address(header.broker_addr)
        name, broker_id, key = header.broker_name, header.broker_id, (header.cluster_name, header.broker_addr)
        table = registration.table
        known = self._brokers.get(name)
        # A slave that becomes master keeps its address: its entry under the former id is removed.
        addrs = {
            other_id: addr
            for other_id, addr in (known.addrs if known else {}).items()
            if addr != header.broker_addr or other_id == broker_id
        }
        if self._outranked(header, addrs.get(broker_id), table.data_version):
            if (outranked := self._live.get(key)) is not None:
                self._forget(outranked.broker_name, *key)
            return RegistrationResult()
        new = broker_id not in addrs
        if new and len(table.topics) == 1:
            return None
        self._forget_former(name, key)
        displaced = self._displaced(known, header)
        addrs[broker_id] = header.broker_addr
        self._brokers[name] = bodies.BrokerData(
            dict(sorted(addrs.items())),
            name,
            header.cluster_name,
            bool(header.enable_acting_master),
            header.zone_name,
        )
        left_out: list[str] = []
        stands_in = header.enable_acting_master is not None and broker_id == min(addrs)
        if broker_id == MASTER_ID or stands_in:
            changed = new or self.data_version(*key) != table.data_version
            self._record_alive(key, header, table.data_version, source, now_ms)
            wiped = WRITE if broker_id != MASTER_ID and header.enable_acting_master else 0
            topics = iter(table.topics.values())
            while part := tuple(islice(topics, PART_MAX)):
                left_out += self._add_topics(name, part, everything=changed, wiped=wiped)
                if len(part) == PART_MAX:
                    yield
            if changed:
                left_out += self._add_mappings(name, table.mapping_infos or {})
        self._record_alive(key, header, table.data_version, source, now_ms)
        master = self._live.get((header.cluster_name, addrs.get(MASTER_ID, "")))
        if broker_id == MASTER_ID or master is None:
            return RegistrationResult(new=new, left_out=tuple(left_out), displaced=displaced)
        return RegistrationResult(master.ha_server_addr, addrs[MASTER_ID], new, tuple(left_out), displaced)

    def heartbeat(self, cluster: str, addr: str, now_ms: int) -> None:
        """Record a heartbeat of a broker."""
        live = self._live.get((cluster, addr))
        if live is not None:
            self._live[cluster, addr] = live._replace(heard_ms=now_ms)

    def data_version(self, cluster: str, addr: str) -> bodies.DataVersion | None:
        """Return the version of the topics that a broker last registered."""
        live = self._live.get((cluster, addr))
        return live.data_version if live else None

    def unregister(self, header: BrokerHeader) -> None:
        """Remove a broker that unregisters."""
        self._forget(header.broker_name, header.cluster_name, header.broker_addr)

    def disconnect(self, source: Hashable) -> list[RemovedBroker]:
        """Remove and return the brokers that had registered over a lost connection."""
        return self._forget_all([key for key, live in self._live.items() if live.source == source])

    def expire(self, now_ms: int) -> list[RemovedBroker]:
        """Remove and return the brokers without a heartbeat for too long."""
        return self._forget_all(
            [key for key, live in self._live.items() if now_ms - live.heard_ms > live.timeout_ms]
        )

    def route(self, topic: str) -> bodies.TopicRoute | None:
        """Return a topic's queues and the brokers that have them; None if no broker has the topic."""
        queues = self._topics.get(topic, {})
        brokers = [self._brokers[name] for name in queues if name in self._brokers]
        if not brokers:
            return None
        if self._acting_masters:
            brokers = [_acting(broker, queues[broker.broker_name].perm) for broker in brokers]
        mappings = self._mappings.get(topic)
        return bodies.TopicRoute(
            brokers, list(queues.values()), mappings=dict(mappings) if mappings else None
        )

    def cluster_info(self) -> bodies.ClusterInfo:
        """Return all brokers, and the broker names of each cluster."""
        clusters: dict[str, list[str]] = {}
        for name, broker in self._brokers.items():
            clusters.setdefault(broker.cluster, []).append(name)
        return bodies.ClusterInfo(dict(self._brokers), clusters)

    def broker(self, name: str) -> bodies.BrokerData | None:
        """Return the addresses of the brokers of one name."""
        return self._brokers.get(name)

    def topics(self, cluster: str | None = None) -> list[str]:
        """Return the names of all topics, or of those of one cluster, sorted."""
        if cluster is None:
            return sorted(self._topics)
        names = {name for name, broker in self._brokers.items() if broker.cluster == cluster}
        return sorted(topic for topic, queues in self._topics.items() if names & queues.keys())

    def topics_with_flags(self, *, wanted: int, unwanted: int = 0) -> list[str]:
        """Return the topics whose system flags have all of ``wanted`` and none of ``unwanted``, sorted."""
        mask = wanted | unwanted
        return sorted(
            topic
            for topic, queues in self._topics.items()
            if queues and next(iter(queues.values())).sys_flag & mask == wanted
        )

    def nearest_topic(self, topic: str) -> str | None:
        """Return the known topic with the most similar name to ``topic``, if one is similar enough."""
        first, last = topic[:1].lower(), topic[-1:].lower()
        candidates = (
            name
            for name in self._topics
            if abs(len(name) - len(topic)) <= 2 and (name[0].lower() == first or name[-1].lower() == last)
        )
        by_lower = {name.lower(): name for name in islice(candidates, NEAREST_CANDIDATES_MAX)}
        close = get_close_matches(topic.lower(), by_lower, n=1, cutoff=0.75)
        return by_lower[close[0]] if close else None

    def add_topic(self, topic: str, queues: Iterable[bodies.QueueData]) -> bool:
        """Add the queues of one topic; returns False and adds nothing if a broker is unknown.

        Raises:
            IllegalName: the topic's name cannot be used.
            FormatError: it would have too many queues.
        """
        valid_topic(topic)
        added = {queue.broker_name: queue for queue in queues}
        if not added or not added.keys() <= self._brokers.keys():
            return False
        for queue in added.values():
            if (fault := self._fault(topic, queue)) is not None:
                raise FormatError(f"topic {topic} has {fault}")
            self._put(topic, queue)
        return True

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Remove a topic, everywhere or in one cluster, until a broker registers it again."""
        for name in list(self._topics.get(topic, ())):
            broker = self._brokers.get(name)
            if cluster is None or (broker is not None and broker.cluster == cluster):
                self._remove_queues(topic, name)

    def set_writable(self, broker_name: str, *, writable: bool) -> int:
        """Allow or forbid sending to the topics of a broker; return how many topics it has."""
        count = 0
        for queues in self._topics.values():
            if broker_name in queues:
                perm = READ | WRITE if writable else queues[broker_name].perm & ~WRITE
                queues[broker_name] = replace(queues[broker_name], perm=perm)
                count += 1
        return count

    def _record_alive(
        self,
        key: tuple[str, str],
        header: RegisterBrokerHeader,
        version: bodies.DataVersion,
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

    def _forget_former(self, name: str, key: tuple[str, str]) -> None:
        """Forget who was registered at a broker's address under another name or cluster."""
        for other in [one for one in self._live if one[1] == key[1]]:
            former = self._live[other].broker_name
            if former != name:
                self._forget(former, *other)
            elif other != key:
                del self._live[other]

    def _displaced(self, known: bodies.BrokerData | None, header: RegisterBrokerHeader) -> str | None:
        """Return the address whose place in the routes a registration takes, if a broker is live there."""
        addr = known.addrs.get(header.broker_id) if known else None
        if known is None or addr is None or addr == header.broker_addr:
            return None
        return addr if (known.cluster, addr) in self._live else None

    def _outranked(self, header: RegisterBrokerHeader, addr: str | None, version: bodies.DataVersion) -> bool:
        """Check whether another process has registered as this broker, with a later state of the group."""
        if addr is None or addr == header.broker_addr:
            return False
        held = self.data_version(header.cluster_name, addr)
        return held is not None and held.state_version > version.state_version

    def _add_topics(
        self, name: str, configs: Iterable[bodies.TopicConfig], *, everything: bool, wiped: int
    ) -> list[str]:
        """Add a broker's topics, or only those unknown so far; return those that cannot be, with the reason.

        One of these that was known stays as it was.
        """
        left_out = []
        for config in configs:
            if not everything and name in self._topics.get(config.topic, ()):
                continue
            counts = config.read_queue_count, config.write_queue_count
            queue = bodies.QueueData(name, config.perm & ~wiped, *counts, config.sys_flag)
            try:
                valid_topic(config.topic)
            except IllegalName:
                fault: str | None = "its name is illegal"
            else:
                fault = self._fault(config.topic, queue)
            if fault is None:
                self._put(config.topic, queue)
            elif everything:
                left_out.append(f"topic {config.topic!r:.80}: {fault}")
        return left_out

    def _fault(self, topic: str, queue: bodies.QueueData) -> str | None:
        """Return why a topic cannot have these queues; None if it can."""
        limits, known, most = self._limits, self._topics.get(topic), self._limits.topic_queues
        read, write = queue.read_queue_count, queue.write_queue_count
        if not (0 <= read <= most and 0 <= write <= most):
            return f"{QueueCounts(queue.broker_name, read, write, queue.perm).fault(most)} (topicQueuesMax)"
        total = max(read, write)
        for name, other in known.items() if known else ():
            if name != queue.broker_name:
                total += max(other.read_queue_count, other.write_queue_count)
        if total > limits.route_queues:
            return f"{total} queues on all brokers, more than {limits.route_queues} (routeQueuesMax)"
        is_new = known is None or queue.broker_name not in known
        if is_new and self._entry_count >= limits.route_topics:
            return f"no place, as brokers have {limits.route_topics} topics already (routeTopicsMax)"
        return None

    def _put(self, topic: str, queue: bodies.QueueData) -> None:
        queues = self._topics.setdefault(topic, {})
        self._entry_count += queue.broker_name not in queues
        queues[queue.broker_name] = queue

    def _add_mappings(self, name: str, mappings: Mapping[str, Any]) -> list[str]:
        """Add where a broker has queues of static topics; return those that cannot be, with the reason."""
        left_out = []
        for topic, mapping in mappings.items():
            if name not in self._topics.get(topic, ()):
                fault: str | None = "the broker has no such topic"
            else:
                fault = _mapping_fault(mapping, self._limits.topic_queues)
            if fault is None:
                self._mappings.setdefault(topic, {})[name] = mapping
            else:
                left_out.append(f"static topic {topic!r:.80}: {fault}")
        return left_out

    def _forget_all(self, keys: list[tuple[str, str]]) -> list[RemovedBroker]:
        gone = []
        for cluster, addr in keys:
            live = self._live[cluster, addr]
            gone.append(RemovedBroker(live.broker_name, addr, live.source))
            self._forget(live.broker_name, cluster, addr)
        return gone

    def _forget(self, name: str, cluster: str, addr: str) -> None:
        live = self._live.get((cluster, addr))
        if live is not None and live.broker_name == name:
            del self._live[cluster, addr]
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
        self._entry_count -= broker_name in self._topics.get(topic, ())
        for table in (self._topics, self._mappings):
            entries = table.get(topic, {})
            entries.pop(broker_name, None)
            if not entries:
                table.pop(topic, None)


def _mapping_fault(mapping: Any, most: int) -> str | None:
    """Return what is wrong with a TopicQueueMappingInfo, which clients read; None if nothing is."""
    if not isinstance(mapping, dict):
        return "its mapping is no object"
    total, ids = mapping.get("totalQueues", 0), mapping.get("currIdMap") or {}
    if not isinstance(total, int) or not 0 <= total <= most:
        return f"{total!r:.80} mapped queues, not 0 to {most} (topicQueuesMax)"
    if not isinstance(ids, dict) or len(ids) > most:
        return f"its currIdMap has more than {most} queues (topicQueuesMax), or is no object"
    if any(
        isinstance(value, dict | list) for value in (*ids.values(), *mapping.values()) if value is not ids
    ):
        return "its mapping is nested deeper than RocketMQ's"
    return None


def _acting(broker: bodies.BrokerData, perm: int) -> bodies.BrokerData:
    """Return the brokers of a name, the slave with the lowest id as the master if that is to act as one."""
    addrs = broker.addrs
    if MASTER_ID in addrs or not broker.acting_master or perm & WRITE:
        return broker
    acting = min(addrs)
    others = {broker_id: addr for broker_id, addr in addrs.items() if broker_id != acting}
    return replace(broker, addrs={MASTER_ID: addrs[acting], **others})


class _Live(NamedTuple):
    """The last registration of a broker.

    Attributes:
        heard_ms: when the broker last registered or sent a heartbeat.
        timeout_ms: how long it stays registered from then.
        data_version: the version of the topics that it registered.
        source: the connection over which it registered.
        ha_server_addr: the address from which its slaves replicate.
        broker_name: the name of its group.
    """

    heard_ms: int
    timeout_ms: int
    data_version: bodies.DataVersion
    source: Hashable
    ha_server_addr: str
    broker_name: str


def _check_name(kind: str, name: str) -> None:
    if len(name) > NAME_LENGTH_MAX or not _NAME.fullmatch(name):
        shown = name[:40]
        raise IllegalName(
            f"{kind} {shown!r}: use 1 to {NAME_LENGTH_MAX} of the characters a-z A-Z 0-9 _ - . % | @ +"
        )


def _check_address(addr: str) -> None:
    try:
        parse_address(addr)
    except SettingsError as error:
        raise IllegalName(f"broker {error}") from None
