"""When a broker takes sends, and when their messages are safe: on the disk, at the slaves, or both.

A slave takes none. A SYNC_MASTER takes none that want to wait for slaves while too few are in sync.
(RocketMQ: CommitLog.java, handleDiskFlushAndHA; SendMessageProcessor.java, rejectRequest.)
"""

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from cometmq.broker.disk_wait import DiskWaits, SlaveWaits
from cometmq.replication.acks import AcksOfSlaves
from cometmq.replication.settings import BrokerRole, ReplicationSettings
from cometmq.store.store import MessageStore
from cometmq.wire.codes import ResponseCode

REJECTED: Final = "[REJECTREQUEST]system busy, start flow control for a while"
"""RocketMQ's words for requests that a slave does not take."""
TOO_FEW: Final = "in-sync replicas not enough"
"""RocketMQ's words for sends that too few brokers would have."""


class Unsafe(NamedTuple):
    """Why it is not sure that a stored message survives."""

    code: ResponseCode
    remark: str


SafeCallback = Callable[[Unsafe | None], None]
"""Called with None once messages are safe, else with the reason why that is not sure."""


class SafeSends:
    """The conditions under which a broker takes sends and answers them.

    Attributes:
        disk: who waits for the disk.
        is_waiting_needed: whether a stored message has to become safe before its send is answered.
        is_slave: whether the broker takes no sends.
        are_too_few: whether too few brokers are in sync for sends that want to wait.
        are_taken: whether all sends are taken; kept, since each turn of the loop with sends looks at it.
    """

    def __init__(self, store: MessageStore, acks: AcksOfSlaves, settings: ReplicationSettings) -> None:
        self.disk = DiskWaits(store)
        self._slaves = SlaveWaits(store, acks, settings.slave_timeout)
        self._acks = acks
        self._waits_for_disk = store.settings.sync_flush
        self._waits_for_slaves = settings.waits_for_slaves
        self._least = settings.min_in_sync_replicas if settings.broker_role is BrokerRole.SYNC_MASTER else 0
        self.is_waiting_needed = self._waits_for_disk or self._waits_for_slaves
        self.is_slave = settings.is_slave
        self.are_too_few = False
        self.are_taken = not self.is_slave
        acks.on_change.append(self.compare)
        self.compare()

    @property
    def count(self) -> int:
        """The number of sends that wait."""
        return max(self.disk.count, self._slaves.count)

    def compare(self) -> None:
        """Compare the number of brokers in sync with the least; called after changes and every second."""
        if self._least > 1:
            self.are_too_few = self._acks.in_sync_count + 1 < self._least
            self.are_taken = not (self.is_slave or self.are_too_few)

    def add(self, done: SafeCallback, count: int = 1) -> None:
        """Call ``done`` once the messages written by now are safe or time out; ``count`` sends wait."""
        both = _Both(done, self._waits_for_disk + self._waits_for_slaves)
        if self._waits_for_disk:
            self.disk.add(partial(both.done, ResponseCode.FLUSH_DISK_TIMEOUT), count)
        if self._waits_for_slaves:
            self._slaves.add(partial(both.done, ResponseCode.FLUSH_SLAVE_TIMEOUT), count)


class _Both:
    """Calls a function once everything that is waited for has come, with the last reason why it has not."""

    __slots__ = ("_call", "_left", "_unsafe")

    def __init__(self, call: SafeCallback, left: int) -> None:
        self._call = call
        self._left = left
        self._unsafe: Unsafe | None = None

    def done(self, code: ResponseCode, reason: str | None) -> None:
        """Count one that has come, or has not for a reason."""
        self._left -= 1
        if reason is not None:
            self._unsafe = Unsafe(code, reason)
        if not self._left:
            self._call(self._unsafe)
