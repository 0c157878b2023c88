"""What the slaves of a master under a controller have acknowledged, and who of them is in sync.

It keeps the sync state set up to date: what an acknowledgement, a lost connection or the time asks for is
proposed to the controller. For sends it is what ``SlaveAcks`` is without a controller.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping

from cometmq.replication.acks import NOTHING
from cometmq.replication.controller.in_sync_set import Follower, InSyncSet, Proposal

Propose = Callable[[InSyncSet, Proposal], Awaitable[None]]


class SetAcks:
    """The acknowledgements of the slaves of one master.

    Args:
        in_sync: the sync state set of its epoch.
        awaited: how many slaves must have acknowledged what is replicated; None for all in sync.
        end_offset: returns the end of the master's log.
        now_ms: returns the monotonic time.
        propose: asks the controller for another set.

    Attributes:
        on_change: functions that are called after each acknowledgement, and when the set has changed.
        in_sync: the sync state set.
    """

    def __init__(
        self,
        in_sync: InSyncSet,
        awaited: int | None,
        end_offset: Callable[[], int],
        now_ms: Callable[[], int],
        propose: Propose,
    ) -> None:
        self.on_change: list[Callable[[], None]] = []
        self.in_sync = in_sync
        self._awaited = awaited
        self._end_offset = end_offset
        self._now_ms = now_ms
        self._propose = propose
        self._asking: set[asyncio.Task[None]] = set()
        self._is_closed = False

    @property
    def by_slave(self) -> Mapping[Hashable, int]:
        """The end offset that each connected slave has acknowledged; NOTHING before its first report."""
        return {slave: NOTHING if ack is None else ack for slave, ack in self.in_sync.acks.items()}

    @property
    def confirm_offset(self) -> int:
        """The offset before which all that must have the log have it: so far it may be read."""
        return self.in_sync.confirm_offset(self._end_offset())

    @property
    def replicated_offset(self) -> int:
        """The offset before which sends are acknowledged; NOTHING if there are not enough slaves."""
        if self._awaited is None:
            return self.confirm_offset
        if self._awaited == 0:
            return self._end_offset()
        acks = sorted(self.by_slave.values(), reverse=True)
        return acks[self._awaited - 1] if len(acks) >= self._awaited else NOTHING

    @property
    def in_sync_count(self) -> int:
        """How many slaves are in the set."""
        return len(self.in_sync.members) - 1

    def is_in_sync(self, follower: Follower) -> bool:
        """Check whether a slave is in the set."""
        return follower.broker_id in self.in_sync.members

    def connect(self, broker_id: int, *, is_learner: bool) -> Follower:
        """Add a slave that has connected."""
        return self.in_sync.connect(broker_id, self._now_ms(), is_learner=is_learner)

    def disconnect(self, follower: Follower) -> None:
        """Remove a slave whose connection is lost."""
        self._ask(self.in_sync.disconnect(follower, self._now_ms()))
        self._changed()

    def sent(self, follower: Follower) -> None:
        """Record that something was sent to a slave."""
        self.in_sync.sent(follower, self._end_offset(), self._now_ms())

    def acked(self, follower: Follower, offset: int) -> None:
        """Record the end of a slave's log."""
        self._ask(self.in_sync.acked(follower, offset, self._end_offset(), self._now_ms()))
        self._changed()

    def check(self) -> None:
        """Propose the set without slaves that are gone or slow; called every few seconds."""
        self._ask(self.in_sync.check(self._now_ms()))
        self._changed()  # who was awaited may be so no longer

    def settle(self, members: frozenset[int], set_epoch: int) -> None:
        """Replace the set by what the controller says."""
        self.in_sync.settle(members, set_epoch, self._now_ms())
        self._changed()

    def begin(self, in_sync: InSyncSet) -> None:
        """Begin a later epoch with its set."""
        self.in_sync = in_sync
        self._changed()

    async def close(self) -> None:
        """Propose nothing any more: a master that stops takes nobody out of the set, who may be elected."""
        self._is_closed = True
        asking = list(self._asking)
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)

    def _ask(self, proposal: Proposal | None) -> None:
        if proposal is None or self._is_closed:
            return
        task = asyncio.create_task(self._ask_for(self.in_sync, proposal))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _ask_for(self, in_sync: InSyncSet, proposal: Proposal) -> None:
        await self._propose(in_sync, proposal)
        self._changed()

    def _changed(self) -> None:
        for action in self.on_change:
            action()
