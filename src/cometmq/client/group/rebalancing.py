"""Keeping a consumer's share of the queues right: asks who is there, takes queues and gives them up.

What to take and to give up is decided by :mod:`cometmq.cluster.rebalance_state`. Here the brokers are asked,
and each queue goes through its phases in a task of its own: one that is slow to leave holds up no other.
(RocketMQ: RebalanceService.java, RebalanceImpl.java.)
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final

from cometmq.client.consumer.consumed import ConsumedQueue
from cometmq.client.consumer.offset_store import OffsetStore
from cometmq.client.group.locks import Locks
from cometmq.client.group.members import members
from cometmq.client.routes import Routes
from cometmq.client.waiting import wait_within
from cometmq.cluster.rebalance import Strategy
from cometmq.cluster.rebalance_state import Assignment, Moves
from cometmq.errors import CometMQError
from cometmq.io.clock import Clock
from cometmq.message import MessageQueue
from cometmq.net.client import Connections

REBALANCE_S: Final = 20.0
UNSETTLED_S: Final = 1.0
"""How soon to look again when the share could not be found out or had as a whole."""
LOCK_RENEWAL_S: Final = 20.0
LOCK_AGAIN_S: Final = 0.5
"""How soon to ask again for a lock that somebody else has, or of which no broker said anything."""
SETTLE_S: Final = 0.5
"""How long a queue that may have had another owner rests before its offset is asked for."""
LAST_COMMITS: Final = 3
"""How often the last commit of a queue is tried: whoever has it next begins where it says."""
COMMIT_AGAIN_S: Final = 0.5

_log = logging.getLogger(__name__)


class Rebalancing:
    """The queues of one consumer.

    Args:
        topics: what is subscribed to, and whether in order.
        strategy: None for broadcasting: each member has all queues.
        consume: makes what consumes a queue.
        on_change: told the queues that are consumed, whenever they change.

    Attributes:
        queues: what is consumed, or about to be given up.
        twins: how many others of our name are in the group.
    """

    def __init__(
        self,
        connections: Connections,
        routes: Routes,
        group: str,
        client_id: str,
        topics: Mapping[str, bool],
        strategy: Strategy | None,
        offsets: OffsetStore,
        consume: Callable[[MessageQueue], ConsumedQueue],
        on_change: Callable[[list[MessageQueue]], None],
        clock: Clock,
    ) -> None:
        self.queues: dict[MessageQueue, ConsumedQueue] = {}
        self.twins = 0
        self._connections = connections
        self._routes = routes
        self._group = group
        self._client_id = client_id
        self._topics = topics
        self._strategy = strategy
        self._offsets = offsets
        self._consume = consume
        self._on_change = on_change
        self._clock = clock
        self._locks = Locks(connections, routes, group, client_id)
        self._assignment = Assignment(self._is_locked)
        self._is_alone = True
        self._twins_seen = 0
        self._wanted = asyncio.Event()
        self._locks_wanted = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._unlocking: set[MessageQueue] = set()
        self._unlocked: set[MessageQueue] = set()
        """What was unlocked since locks were last asked for: the answer does not count, it may be older."""
        self._perhaps_held: set[MessageQueue] = set()
        """Locks that a broker may have for us: asked for, and since then neither refused nor given back."""
        self._writing: dict[MessageQueue, asyncio.Task[CometMQError | OSError | None]] = {}

    def soon(self) -> None:
        """Look again soon: something changed."""
        self._wanted.set()

    def subscribe(self, topics: Mapping[str, bool]) -> None:
        """Consume these topics and no others from now on; what stays as it was is not disturbed.

        The queues of a topic that is now in order, or not any more, are given up and taken anew.
        """
        before, self._topics = self._topics, dict(topics)
        for topic, ordered in before.items():
            if self._topics.get(topic) is not ordered:
                self._go_on(self._assignment.aim(topic, ()))
        self.soon()

    def holds(self, queue: MessageQueue) -> bool:
        """Tell whether a queue's next message may be handed out."""
        return self._assignment.holds(queue, self._clock.monotonic_ms())

    def owned(self) -> list[MessageQueue]:
        """Give the queues that are consumed now."""
        return self._assignment.owned()

    async def run(self) -> None:
        """Rebalance, each 20 s and when told to."""
        while True:
            self._wanted.clear()
            settled = await self.round()
            await wait_within(self._wanted, REBALANCE_S if settled else UNSETTLED_S)

    async def run_locks(self) -> None:
        """Take and renew locks."""
        while True:
            self._locks_wanted.clear()
            is_decided = await self._lock()
            is_settled = is_decided and not (self._owed() or self._assignment.to_begin())
            await wait_within(self._locks_wanted, LOCK_RENEWAL_S if is_settled else LOCK_AGAIN_S)

    async def round(self) -> bool:
        """Find out the share of each topic; tell whether all is as it shall be."""
        twins, self._twins_seen = self._twins_seen, 0
        known = [await self._rebalance(topic) for topic in self._topics]
        return self._know_twins(twins) and all(known) and self._assignment.is_settled()

    def is_busy(self) -> bool:
        """Tell whether messages that came wait or are being handled."""
        return any(queue.pulling.waiting for queue in self.queues.values())

    def assign(self, queues: Iterable[MessageQueue]) -> None:
        """Have these queues and no others, whoever else has them."""
        chosen = set(queues)
        for topic in {queue.topic for queue in chosen.union(self.queues)}:
            self._go_on(self._assignment.aim(topic, (queue for queue in chosen if queue.topic == topic)))

    def restart(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Go on at other offsets in the queues that are consumed here, and commit these."""
        for queue in offsets.keys() & self.queues.keys():
            _log.warning("%s goes on at %d: its offset was reset", queue, offsets[queue])
            self.queues[queue].pulling.restart(offsets[queue])
        self._start(self.commit())

    async def commit(self, queues: Iterable[MessageQueue] | None = None) -> bool:
        """Commit how far queues are handled; what fails is committed next time. Tell whether nothing did."""
        return await self.try_commit(queues) is None

    async def try_commit(self, queues: Iterable[MessageQueue] | None = None) -> CometMQError | OSError | None:
        """Commit like ``commit``, and give what failed.

        A commit that was begun goes on if this is cancelled, and the next one of a queue waits for it: a
        broker that handles requests side by side could else take the older for the newer.
        """
        chosen = list(self.queues if queues is None else queues)
        while under_way := {self._writing[queue] for queue in chosen if queue in self._writing}:
            await asyncio.wait(under_way)
        offsets = {
            queue: offset
            for queue in chosen
            if queue in self.queues and (offset := self.queues[queue].to_commit) is not None
        }
        if not offsets:
            return None
        writing = asyncio.create_task(self._write(offsets))
        self._writing |= dict.fromkeys(offsets, writing)
        return await asyncio.shield(writing)

    def commit_again(self) -> None:
        """Let the next commit tell of all queues: a broker that was killed may have lost what it was told."""
        for consumed in self.queues.values():
            consumed.committed(None)

    async def commit_at_last(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Commit, and try again what fails: nobody else will do it later."""
        for _ in range(LAST_COMMITS - 1):
            if await self.commit(queues):
                return
            await asyncio.sleep(COMMIT_AGAIN_S)
        await self.commit(queues)

    async def give_up(self) -> None:
        """Have no queue any more, and give back all locks."""
        if self._assignment.owned():
            self._on_change([])
        await self._locks.unlock(self._perhaps_held)

    async def stop(self) -> None:
        """Take and give up nothing more."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _rebalance(self, topic: str) -> bool:
        share = await self._share(topic)
        if share is not None and topic in self._topics:  # else it was given up meanwhile
            self._go_on(self._assignment.aim(topic, share))
        return share is not None

    async def _share(self, topic: str) -> Sequence[MessageQueue] | None:
        """Find out which queues of a topic shall be ours; None if that is not known now."""
        self._routes.forget(topic)
        try:
            queues = sorted((await self._routes.get(topic)).subscribe_queues())
            if self._strategy is None:
                return queues
            ids = await members(self._connections, self._routes, topic, self._group)
        except CometMQError as error:
            _log.debug("the share of %s is not known yet: %s", topic, error)
            return None
        self._twins_seen = max(self._twins_seen, ids.count(self._client_id) - 1)
        if self._client_id not in ids:
            return None  # the broker has not heard of us yet, or not again: what we have is still ours
        self._is_alone = len(ids) == 1
        return self._strategy(self._client_id, queues, ids)

    def _know_twins(self, last: int) -> bool:
        """Tell whether as many of our name were seen as in the round of before: twins, and no passing thing.

        For a moment a broker may have our connection of before beside the new one.
        """
        twins = min(self._twins_seen, last)
        if twins and not self.twins:
            _log.error(
                "%d other(s) in group %s are called %s as well: brokers take them for one member, and some "
                "queues are consumed twice, others by nobody; give each an instance of its own, or none",
                twins, self._group, self._client_id,
            )  # fmt: skip
        self.twins = twins
        return twins == self._twins_seen

    def _go_on(self, moves: Moves) -> None:
        """Follow, and see to locks that are wanted now, or are not wanted any more."""
        self._follow(moves)
        if self._owed() or self._assignment.to_begin():
            self._locks_wanted.set()

    def _follow(self, moves: Moves) -> None:
        for queue in moves.take:
            consumed = self.queues[queue] = self._consume(queue)
            consumed.begin(0.0 if self._is_alone or self._assignment.needs_lock(queue) else SETTLE_S)
        for queue in moves.leave:
            self._start(self._leave(queue))
        if moves.take or moves.leave:
            _log.info("%s of %s: takes %s, leaves %s", self._client_id, self._group, *moves)
            self._on_change(self._assignment.owned())

    async def _leave(self, queue: MessageQueue) -> None:
        await self.queues[queue].stop()
        if self._assignment.needs_lock(queue):
            await self.commit_at_last([queue])  # the next owner waits for the lock
            self._unlocking.add(queue)  # a renewal at this moment would take it again, for nobody
            self._unlocked.add(queue)
            await self._give_back({queue})
            self._unlocking.discard(queue)
        elif queue.topic in self._topics:
            await self.commit([queue])
        else:
            await self.commit_at_last([queue])
        del self.queues[queue]
        self._go_on(self._assignment.left(queue))

    async def _write(self, offsets: Mapping[MessageQueue, int]) -> CometMQError | OSError | None:
        try:
            await self._offsets.write(offsets)
        except (CometMQError, OSError) as error:
            _log.warning("offsets are not committed yet: %s", error)
            return error
        finally:
            for queue in offsets:
                del self._writing[queue]
        for queue in offsets.keys() & self.queues.keys():
            self.queues[queue].committed(offsets[queue])
        return None

    def _owed(self) -> set[MessageQueue]:
        """Give the locks that must be given back: until a broker has heard of it nobody else can get them."""
        return self._perhaps_held.difference(self._assignment.to_lock())

    async def _give_back(self, locks: set[MessageQueue]) -> None:
        self._perhaps_held.difference_update(await self._locks.unlock(locks))

    async def _lock(self) -> bool:
        """Give back, take and renew locks; tell whether the brokers have answered for all that are wanted."""
        if owed := self._owed():
            await self._give_back(owed)
        queues = [queue for queue in self._assignment.to_lock() if queue not in self._unlocking]
        self._perhaps_held.update(queues)
        self._unlocked.clear()
        asked_ms = self._clock.monotonic_ms()
        decided = await self._locks.lock(queues)
        refused = set(decided.asked).difference(decided.granted)
        self._perhaps_held |= self._unlocked.intersection(queues)
        self._perhaps_held -= refused
        asked = [queue for queue in decided.asked if queue not in self._unlocked]
        self._follow(self._assignment.granted(asked, decided.granted, asked_ms))
        self._follow(self._assignment.expire(self._clock.monotonic_ms()))
        return len(decided.asked) == len(queues)

    def _is_locked(self, topic: str) -> bool:
        return self._strategy is not None and self._topics.get(topic, False)

    def _start(self, work: Coroutine[Any, Any, object]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
