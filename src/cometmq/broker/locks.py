"""Queue locks of orderly consumers: one client of a group may consume a queue at a time.

::

    {"lockTable": {group: {client id: [{"topic": "T", "brokerName": "a", "queueId": 0}]}}}     queueLocks.json

A client takes its locks anew every 20 s, and relies on them for 30 s. So they outlive the broker: after a
restart the first client to come back would else get locks that others rely on. The file has who holds a lock,
not since when: each begins anew. (RocketMQ: RebalanceLockManager.java, which forgets; the file is our own.)
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from msgspec import field

from cometmq.broker import saved
from cometmq.broker.changing_table import ChangingTable
from cometmq.io.clock import Clock
from cometmq.message import MessageQueue
from cometmq.store.tables import JsonTable
from cometmq.wire.bodies import Body, to_plain

LOCK_LIFETIME_MS = 60_000
"""A lock that its owner has not taken again for so long is free."""


class _Lock(NamedTuple):
    client_id: str
    taken_ms: int


class QueueLocks(ChangingTable):
    """Who holds which queue, by consumer group."""

    def __init__(self, table: JsonTable, clock: Clock) -> None:
        super().__init__(table)
        self._clock = clock
        self._groups: dict[str, dict[MessageQueue, _Lock]] = {}

    def load(self) -> None:
        """Read the table. Raises StoreDamaged if the file holds something else than locks."""
        content = saved.load(self._table, _Table)
        now = self._clock.monotonic_ms()
        for group, by_client in ({} if content is None else content.locks).items():
            self._groups[group] = {
                queue: _Lock(client_id, now) for client_id, queues in by_client.items() for queue in queues
            }

    def as_plain(self) -> dict[str, Any]:
        """Give a copy of the table, without what has expired."""
        now = self._clock.monotonic_ms()
        table = _Table()
        for group, locks in self._groups.items():
            for queue, lock in locks.items():
                if not self._expired(lock, now):
                    table.locks.setdefault(group, {}).setdefault(lock.client_id, []).append(queue)
        plain: dict[str, Any] = to_plain(table)
        return plain

    def lock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        """Lock or re-lock each of ``queues`` that is free, expired or the client's own; give these."""
        now = self._clock.monotonic_ms()
        locks = self._groups.setdefault(group, {})
        granted = [queue for queue in queues if self._free(locks.get(queue), client_id, now)]
        for queue in granted:
            self._changed |= queue not in locks or locks[queue].client_id != client_id
            locks[queue] = _Lock(client_id, now)
        return granted

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Free each of ``queues`` that the client holds."""
        locks = self._groups.get(group, {})
        for queue in queues:
            if queue in locks and locks[queue].client_id == client_id:
                del locks[queue]
                self._changed = True
        if not locks:
            self._groups.pop(group, None)

    def is_orderly(self, group: str) -> bool:
        """Tell whether any client of ``group`` holds a live lock: it consumes in order then."""
        now = self._clock.monotonic_ms()
        return any(not self._expired(lock, now) for lock in self._groups.get(group, {}).values())

    def _free(self, lock: _Lock | None, client_id: str, now: int) -> bool:
        return lock is None or lock.client_id == client_id or self._expired(lock, now)

    @staticmethod
    def _expired(lock: _Lock, now: int) -> bool:
        return now - lock.taken_ms > LOCK_LIFETIME_MS


class _Table(Body):
    locks: dict[str, dict[str, list[MessageQueue]]] = field(default_factory=dict, name="lockTable")
