"""Queue locks of orderly consumers: one client of a group may consume a queue at a time.

::

    {"lockTable": {group: {client: [{"topic": "T", "brokerName": "a", "queueId": 0}]}}}        queueLocks.json

Two users' clients may have the same id, and are two clients: in the file the id is followed by a line break
and the user, if requests are signed.

A client renews its locks every 20 s, and relies on them for 30 s. So they outlive the broker: after a restart
the first client to reconnect would otherwise get locks that others rely on. The file has the owner of a lock,
not its age: a loaded lock counts as renewed now. (RocketMQ: RebalanceLockManager.java, which keeps locks in
memory only; the file is our own.)
"""

from collections.abc import Iterable, Mapping
from itertools import takewhile
from typing import Any, Final, NamedTuple

from msgspec import field

from cometmq.broker.state import table_files
from cometmq.broker.state.changing_table import ChangingTable
from cometmq.io.clock import Clock
from cometmq.message import MessageQueue
from cometmq.store.tables import JsonTable
from cometmq.wire.bodies import Body, to_plain

LOCK_LIFETIME_MS = 60_000
"""How long after its last renewal a lock expires."""
_USER: Final = "\n"
"""What stands before the user in the name of a client."""


class _Owner(NamedTuple):
    user: str
    client_id: str

    def __str__(self) -> str:
        """Return the client's name in the file."""
        is_plain = not self.user and _USER not in self.client_id
        return self.client_id if is_plain else f"{self.client_id}{_USER}{self.user}"


class _Lock(NamedTuple):
    owner: _Owner
    taken_ms: int


class QueueLocks(ChangingTable[str, dict[MessageQueue, _Lock]]):
    """The queue locks of all consumer groups."""

    def __init__(self, table: JsonTable, clock: Clock) -> None:
        super().__init__(table)
        self._clock = clock
        self._groups: dict[str, dict[MessageQueue, _Lock]] = {}
        self._by_time: dict[tuple[str, MessageQueue], None] = {}  # oldest renewal first

    def load(self) -> None:
        """Read the table. Raises StoreDamaged if the file holds something else than locks."""
        content = table_files.load(self._table, _LockTable)
        now = self._clock.monotonic_ms()
        for group, by_client in ({} if content is None else content.locks).items():
            self._groups[group] = {
                queue: _Lock(_owner_of(name), now) for name, queues in by_client.items() for queue in queues
            }
        self._by_time = {(group, queue): None for group, locks in self._groups.items() for queue in locks}
        self._add_loaded(self._groups)

    def lock(
        self, group: str, client_id: str, queues: Iterable[MessageQueue], user: str = ""
    ) -> list[MessageQueue]:
        """Lock each of ``queues`` that is free, expired or the own one of a user's client; return those."""
        owner, now = _Owner(user, client_id), self._clock.monotonic_ms()
        self._remove_expired(now)
        locks = self._groups.get(group, {})
        granted = [queue for queue in queues if (lock := locks.get(queue)) is None or lock.owner == owner]
        taken, by_time = _Lock(owner, now), self._by_time
        for queue in granted:
            if queue in locks:
                del by_time[group, queue]
            else:
                self._changes[group] = None
            locks[queue] = taken
            by_time[group, queue] = None
        if granted:
            self._groups[group] = locks
        return granted

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue], user: str = "") -> None:
        """Unlock each of ``queues`` that a user's client holds."""
        owner, locks = _Owner(user, client_id), self._groups.get(group, {})
        for queue in queues:
            if queue in locks and locks[queue].owner == owner:
                self._remove(group, queue)

    def is_orderly(self, group: str) -> bool:
        """Check whether a client of ``group`` holds an unexpired lock: the group consumes in order then."""
        now = self._clock.monotonic_ms()
        return any(not self._expired(lock, now) for lock in self._groups.get(group, {}).values())

    def _remove_expired(self, now: int) -> None:
        def is_expired(name: tuple[str, MessageQueue]) -> bool:
            group, queue = name
            return self._expired(self._groups[group][queue], now)

        for group, queue in list(takewhile(is_expired, self._by_time)):
            self._remove(group, queue)

    def _remove(self, group: str, queue: MessageQueue) -> None:
        locks = self._groups[group]
        del locks[queue], self._by_time[group, queue]
        self._changes[group] = None
        if not locks:
            del self._groups[group]

    def _copy_of(self, name: str) -> dict[MessageQueue, _Lock] | None:
        locks = self._groups.get(name)
        return None if locks is None else dict(locks)

    def _plain(self, entry: dict[MessageQueue, _Lock]) -> Any:
        by_client: dict[str, list[MessageQueue]] = {}
        for queue, lock in entry.items():
            by_client.setdefault(str(lock.owner), []).append(queue)
        return to_plain(by_client)

    def _whole(self, entries: Mapping[str, Any]) -> dict[str, Any]:
        return {"lockTable": dict(entries)}

    @staticmethod
    def _expired(lock: _Lock, now: int) -> bool:
        return now - lock.taken_ms > LOCK_LIFETIME_MS


def _owner_of(name: str) -> _Owner:
    """Return the client that has a name in the file."""
    client_id, _, user = name.rpartition(_USER) if _USER in name else (name, "", "")
    return _Owner(user, client_id)


class _LockTable(Body):
    locks: dict[str, dict[str, list[MessageQueue]]] = field(default_factory=dict, name="lockTable")
