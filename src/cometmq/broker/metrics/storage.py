"""Gauges of the store, its disk and its timer, of replication, and of connections."""

from collections import Counter
from math import inf
from typing import Final

from cometmq.broker.metrics import families
from cometmq.broker.metrics.traffic import is_system
from cometmq.broker.replication import Replication
from cometmq.broker.state.consumers import Consumers
from cometmq.broker.state.producers import ConnectedMember, Producers
from cometmq.broker.timed.timed_messages import TimedMessages
from cometmq.io.files import FileLayer
from cometmq.io.write_health import failures_of
from cometmq.metrics.family import Values
from cometmq.net.server import Server, Session
from cometmq.store.log.seek import record_store_time
from cometmq.store.reading import Reading
from cometmq.store.store import MessageStore
from cometmq.wire.bodies import ConsumeType
from cometmq.wire.bodies.stats import seconds_behind
from cometmq.wire.codes import version_name

STORAGE: Final = "local", "disk"
"""The labels ``storage_type`` and ``storage_medium``."""
REMOTING: Final = "remoting"
_MODES: Final = {
    ConsumeType.CONSUME_ACTIVELY: "pull",
    ConsumeType.CONSUME_PASSIVELY: "push",
    ConsumeType.CONSUME_POP: "pop",
}


def read_store(values: Values, store: MessageStore, files: FileLayer) -> Reading[None]:
    """Read the store's pointers, its disk's space and the age of its oldest message."""
    pointers = store.pointers
    values.set(families.SIZE, pointers.committed - pointers.begin, *STORAGE)
    values.set(families.FLUSH_BEHIND, pointers.written - pointers.flushed, *STORAGE)
    values.set(families.DISPATCH_BEHIND, pointers.confirmed - pointers.dispatched, *STORAGE)
    for name, offset in pointers._asdict().items():
        values.set(families.OFFSETS, offset, name)
    values.set(families.SYNCS, store.sync_count)
    values.set(families.WRITABLE, store.refusal_of_disk is None)
    values.set(families.FAILED_WRITES, len(failures_of(files)))
    used, usable = files.usage(store.root)
    values.set(families.DISK, used, "used")
    values.set(families.DISK, usable, "usable")
    oldest = yield from store.readings.record(store.min_offset)
    if oldest is not None:
        age_ms = store.clock.now_ms() - record_store_time(oldest)
        values.set(families.RESERVE_MS, max(age_ms, 0), *STORAGE)


def add_replication(values: Values, replication: Replication) -> None:
    """Add a master's slaves and how far each is behind, or whether a slave is connected."""
    if replication.is_slave:
        values.set(families.MASTER_CONNECTED, not replication.is_looking)
        return
    status = replication.status()
    values.set(families.SLAVES, len(status.connections), "connected")
    values.set(families.SLAVES, status.in_sync_slaves, "in_sync")
    for slave in status.connections:
        values.set(families.SLAVE_BEHIND, slave.behind, slave.address)
        behind_s = seconds_behind(slave.behind, slave.bytes_per_second)
        values.set(families.SLAVE_BEHIND_S, inf if behind_s is None else behind_s, slave.address)


def add_timer(values: Values, timed: TimedMessages, now_ms: int) -> None:
    """Add how many timed messages wait, and how late the timer is."""
    values.set(families.TIMER_BEHIND, timed.behind, *STORAGE)
    values.set(families.TIMER_WAITING, timed.count, *STORAGE)
    due_ms = timed.next_ms
    values.set(families.TIMER_LATE_MS, 0 if due_ms is None else max(now_ms - due_ms, 0), *STORAGE)


def add_connections(
    values: Values, server: Server, producers: Producers[Session], consumers: Consumers[Session]
) -> None:
    """Add the numbers of connections, and of the members of groups by language and release."""
    values.set(families.CONNECTIONS, len(server.sessions))
    if (most := server.connections_max) is not None:
        values.set(families.CONNECTIONS_MAX, most)
    values.set(families.CONNECTIONS_REFUSED, server.refused_connections)
    counts = Counter(_client(member) for group in producers.groups().values() for member in group.values())
    for client, count in counts.items():
        values.set(families.PRODUCERS, count, *client, REMOTING)
    for name, members in consumers.groups().items():
        mode = _MODES[members.consume_type]
        for client, count in Counter(map(_client, members.members.values())).items():
            values.set(families.CONSUMERS, count, name, *client, mode, REMOTING, is_system("", name))


def _client(member: ConnectedMember) -> tuple[str, str]:
    """Return the labels ``language`` and ``version`` of a member."""
    return member.language.lower(), version_name(member.version).lower()
