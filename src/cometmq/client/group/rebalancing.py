"""Rebalance a consumer: query the members of its group, acquire and release queues, commit offsets.

:mod:`cometmq.cluster.rebalance_state` decides which queues to acquire and release. This module sends the
requests, and each queue goes through its phases in a task of its own: a slow one delays no other.
(RocketMQ: RebalanceService.java, RebalanceImpl.java.)
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, NamedTuple

from cometmq.client.answer import successful
from cometmq.client.group.member_settings import MemberSettings
from cometmq.client.handling.consumed_queue import ConsumedQueue
from cometmq.client.requests.offset_store import OffsetStore
from cometmq.client.routes import Routes
from cometmq.client.waiting import wait_within
from cometmq.cluster.rebalance_state import Assignment, Moves
from cometmq.errors import CometMQError, FormatError, NetworkError, NoRoute, RemoteError
from cometmq.logs import get_logger
from cometmq.message import MessageQueue
from cometmq.net.client import Connections
from cometmq.wire.bodies.body import decode, encode
from cometmq.wire.bodies.group import ConsumerIds
from cometmq.wire.bodies.locks import LockRequest, LockResponse
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import ConsumerGroupHeader, fields

REBALANCE_S: Final = 20.0
UNSETTLED_S: Final = 1.0
"""Interval of rebalances while the share is unknown or not owned completely."""
LOCK_RENEWAL_S: Final = 20.0
LOCK_RETRY_S: Final = 0.5
"""How soon to request a lock again that another member holds or that no broker decided."""
SETTLE_S: Final = 0.5
"""How long to wait before the offset of a queue is read that may have had another owner."""
FINAL_COMMIT_TRIES: Final = 3
"""How often the last commit of a queue is tried: the next owner begins at its offset."""
COMMIT_RETRY_S: Final = 0.5
UNKNOWN_SHOWN_MAX: Final = 3
"""Most queues that a warning names."""

_log = get_logger(__name__)


class Rebalancing:
    """The queues of one consumer: all of them by default, where a method takes queues.

    Args:
        settings: its ``strategy`` is None for broadcasting: each member owns all queues.
        topics: the topics to consume; the value says whether in order.
        consume: creates the consumption of a queue.

    Attributes:
        queues: the queues that are consumed or about to be released.
        twins: how many other members of the group have our client id.
    """

    def __init__(
        self,
        connections: Connections,
        routes: Routes,
        settings: MemberSettings,
        topics: Mapping[str, bool],
        offsets: OffsetStore,
        consume: Callable[[MessageQueue], ConsumedQueue],
    ) -> None:
        self.queues: dict[MessageQueue, ConsumedQueue] = {}
        self.twins = 0
        self._connections = connections
        self._routes = routes
        self._settings = settings
        self._topics = topics
        self._offsets = offsets
        self._consume = consume
        self._locks = Locks(connections, routes, settings.group, settings.client_id)
        self._assignment = Assignment(self._needs_lock)
        self._is_alone = True
        self._twins_seen = 0
        self._rebalance_due = asyncio.Event()
        self._locks_due = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._unlocking: set[MessageQueue] = set()
        self._unlocked: set[MessageQueue] = set()
        """Unlocked since the last lock request: its response is ignored for them, as it may be older."""
        self._perhaps_locked: set[MessageQueue] = set()
        """Locks that a broker may hold for us: requested, and since then neither refused nor unlocked."""
        self._writing: dict[MessageQueue, asyncio.Task[CometMQError | OSError | None]] = {}

    def rebalance_soon(self) -> None:
        """Rebalance without waiting for the interval."""
        self._rebalance_due.set()

    def subscribe(self, topics: Mapping[str, bool]) -> None:
        """Replace the topics to consume; unchanged ones are not disturbed.

        If a topic changes to or from ordered, its queues are released and acquired again.
        """
        before, self._topics = self._topics, dict(topics)
        for topic, ordered in before.items():
            if self._topics.get(topic) is not ordered:
                self._move(self._assignment.aim(topic, ()))
        self.rebalance_soon()

    def holds(self, queue: MessageQueue) -> bool:
        """Return whether a queue is owned, so that its next message may be handled."""
        return self._assignment.holds(queue, self._settings.clock.monotonic_ms())

    def owned(self) -> list[MessageQueue]:
        """Return the queues that are owned now."""
        return self._assignment.owned()

    async def run(self) -> None:
        """Rebalance every 20 s, and at ``rebalance_soon``."""
        while True:
            self._rebalance_due.clear()
            settled = await self.rebalance()
            await wait_within(self._rebalance_due, REBALANCE_S if settled else UNSETTLED_S)

    async def run_locks(self) -> None:
        """Lock, renew and unlock queues."""
        while True:
            self._locks_due.clear()
            is_decided = await self._lock()
            is_settled = is_decided and not (self._to_unlock() or self._assignment.to_begin())
            await wait_within(self._locks_due, LOCK_RENEWAL_S if is_settled else LOCK_RETRY_S)

    async def rebalance(self) -> bool:
        """Find the share of each topic; return whether exactly that is owned."""
        twins, self._twins_seen = self._twins_seen, 0
        known = [await self._rebalance(topic) for topic in self._topics]
        return self._check_twins(twins) and all(known) and self._assignment.is_settled()

    async def begin(self, timeout_s: float) -> None:
        """Wait until it is fixed, and committed, where each queue of our share begins; at most so long.

        A queue whose lock another member holds has begun there.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                if self._assignment.to_begin():
                    await self._lock()
                for consumed in list(self.queues.values()):
                    await consumed.pulling.begun.wait()
                if self._settings.commit_ms is not None:
                    await self.commit()
        unknown = [
            str(queue) for queue, consumed in self.queues.items() if not consumed.pulling.begun.is_set()
        ]
        if unknown:
            _log.warning(
                "%s of %s has started, but no broker says yet where it begins in %s: messages stored from "
                "now on are not missed",
                self._settings.client_id, self._settings.group, ", ".join(unknown[:UNKNOWN_SHOWN_MAX]),
            )  # fmt: skip

    def is_busy(self) -> bool:
        """Return whether messages wait or are being handled."""
        return any(queue.pulling.waiting for queue in self.queues.values())

    def assign(self, queues: Iterable[MessageQueue]) -> None:
        """Own these queues and no others, whether or not other members own them."""
        chosen = set(queues)
        for topic in {queue.topic for queue in chosen.union(self.queues)}:
            self._move(self._assignment.aim(topic, (queue for queue in chosen if queue.topic == topic)))

    def restart(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Continue at other offsets in the queues that are consumed here, and commit them."""
        for queue in offsets.keys() & self.queues.keys():
            _log.warning("%s goes on at %d: its offset was reset", queue, offsets[queue])
            self.queues[queue].pulling.restart(offsets[queue])
        self._start(self.commit())

    async def commit(self, queues: Iterable[MessageQueue] | None = None) -> bool:
        """Commit the offsets of queues; return whether all succeeded. The next commit retries the others."""
        return await self.try_commit(queues) is None

    async def try_commit(self, queues: Iterable[MessageQueue] | None = None) -> CometMQError | OSError | None:
        """Commit the offsets of queues; return the first error.

        If this is cancelled the commit goes on, and the next one of a queue waits for it: a broker that
        handles requests concurrently could else store the older offset last.
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

    def mark_uncommitted(self) -> None:
        """Commit the offsets of all queues again next time: a killed broker may have lost them."""
        for consumed in self.queues.values():
            consumed.committed(None)

    async def commit_with_retries(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Commit the offsets of queues and retry failures: there is no later commit."""
        for _ in range(FINAL_COMMIT_TRIES - 1):
            if await self.commit(queues):
                return
            await asyncio.sleep(COMMIT_RETRY_S)
        await self.commit(queues)

    async def release(self) -> None:
        """Release all queues and locks."""
        if self._assignment.owned():
            self._settings.on_rebalance([])
        await self._locks.unlock(self._perhaps_locked)

    async def stop(self) -> None:
        """Cancel the tasks that acquire and release queues."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _rebalance(self, topic: str) -> bool:
        share = await self._share(topic)
        if share is not None and topic in self._topics:  # else it was unsubscribed meanwhile
            self._move(self._assignment.aim(topic, share))
        return share is not None

    async def _share(self, topic: str) -> Sequence[MessageQueue] | None:
        """Find the queues of a topic that this member should own; None if that is unknown now."""
        self._routes.expire(topic)
        me, strategy = self._settings.client_id, self._settings.strategy
        try:
            queues = sorted((await self._routes.get(topic)).subscribe_queues())
            if strategy is None:
                return queues
            ids = await members(self._connections, self._routes, topic, self._settings.group)
        except CometMQError as error:
            _log.debug("the share of %s is not known yet: %s", topic, error)
            return None
        self._twins_seen = max(self._twins_seen, ids.count(me) - 1)
        if me not in ids:
            return None  # the broker has not had our heartbeat: the owned queues are still ours
        self._is_alone = len(ids) == 1
        return strategy(me, queues, ids)

    def _check_twins(self, last: int) -> bool:
        """Count members with our client id; return whether none is new since the last rebalance.

        A broker may list our old connection beside the new one for a moment, so only twins seen twice count.
        """
        twins = min(self._twins_seen, last)
        if twins and not self.twins:
            _log.error(
                "%d other(s) in group %s have the client id %s too: brokers take them for one member, and "
                "some queues are consumed twice, others by nobody; give each an instance of its own, or none",
                twins, self._settings.group, self._settings.client_id,
            )  # fmt: skip
        self.twins = twins
        return twins == self._twins_seen

    def _move(self, moves: Moves) -> None:
        """Apply moves, and wake the task of the locks if some are to be locked or unlocked."""
        self._apply(moves)
        if self._to_unlock() or self._assignment.to_begin():
            self._locks_due.set()

    def _apply(self, moves: Moves) -> None:
        for queue in moves.take:
            consumed = self.queues[queue] = self._consume(queue)
            consumed.begin(0.0 if self._is_alone or self._assignment.needs_lock(queue) else SETTLE_S)
        for queue in moves.leave:
            self._start(self._leave(queue))
        if moves.take or moves.leave:
            settings = self._settings
            _log.info("%s of %s: acquires %s, releases %s", settings.client_id, settings.group, *moves)
            settings.on_rebalance(self._assignment.owned())

    async def _leave(self, queue: MessageQueue) -> None:
        await self.queues[queue].stop()
        if self._assignment.needs_lock(queue):
            await self.commit_with_retries([queue])  # the next owner waits for the lock
            self._unlocking.add(queue)  # a renewal at this moment would lock it again
            self._unlocked.add(queue)
            await self._unlock({queue})
            self._unlocking.discard(queue)
        elif queue.topic in self._topics:
            await self.commit([queue])
        else:
            await self.commit_with_retries([queue])
        del self.queues[queue]
        self._move(self._assignment.left(queue))

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

    def _to_unlock(self) -> set[MessageQueue]:
        """Return the locks to release: until their brokers confirm no other member can get them."""
        return self._perhaps_locked.difference(self._assignment.to_lock())

    async def _unlock(self, queues: set[MessageQueue]) -> None:
        self._perhaps_locked.difference_update(await self._locks.unlock(queues))

    async def _lock(self) -> bool:
        """Unlock, lock and renew queues; return whether the brokers have decided all lock requests."""
        if to_unlock := self._to_unlock():
            await self._unlock(to_unlock)
        queues = [queue for queue in self._assignment.to_lock() if queue not in self._unlocking]
        self._perhaps_locked.update(queues)
        self._unlocked.clear()
        clock = self._settings.clock
        request_ms = clock.monotonic_ms()
        decided, granted = await self._locks.lock(queues)
        self._perhaps_locked |= self._unlocked.intersection(queues)
        self._perhaps_locked -= set(decided).difference(granted)
        current = [queue for queue in decided if queue not in self._unlocked]
        self._apply(self._assignment.granted(current, granted, request_ms))
        self._apply(self._assignment.expire(clock.monotonic_ms()))
        return len(decided) == len(queues)

    def _needs_lock(self, topic: str) -> bool:
        return self._settings.strategy is not None and self._topics.get(topic, False)

    def _start(self, work: Coroutine[Any, Any, object]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def members(connections: Connections, routes: Routes, topic: str, group: str) -> list[str]:
    """Return the client ids of a group's members, sorted; an id that two clients share appears twice.

    Members send heartbeats to all brokers of a topic, so any broker can respond; they are tried in turn.

    Raises:
        NoRoute, NetworkError, RemoteError: no broker of the topic returns the members.
    """
    route = await routes.get(topic)
    command_fields = fields(ConsumerGroupHeader(group))
    failure: NetworkError | RemoteError | None = None
    for broker_name in sorted(route.addresses):
        address = route.any_broker(broker_name)
        if address is None:
            continue
        command = Command(RequestCode.GET_CONSUMER_LIST_BY_GROUP, ext_fields=dict(command_fields))
        try:
            answer = await connections.request(address, command)
        except NetworkError as error:
            failure = error
            continue
        if answer.code == ResponseCode.SUCCESS:
            return sorted(decode(ConsumerIds, answer.body).ids)
        failure = RemoteError(answer.code, answer.remark or "")
    raise failure or NoRoute(f"no broker of topic {topic!r} is known to the name server")


class LockDecisions(NamedTuple):
    """The queues whose brokers responded to a lock request, and those of them that are locked for us."""

    decided: list[MessageQueue]
    granted: list[MessageQueue]


class Locks:
    """Requests the locks of one member of a group."""

    def __init__(self, connections: Connections, routes: Routes, group: str, client_id: str) -> None:
        self._connections = connections
        self._routes = routes
        self._group = group
        self._client_id = client_id

    async def lock(self, queues: Iterable[MessageQueue]) -> LockDecisions:
        """Lock queues or renew their locks; a broker without a valid response has decided nothing."""
        decisions = LockDecisions([], [])
        for requested, answer in await self._request(RequestCode.LOCK_BATCH_MQ, queues):
            try:
                granted = decode(LockResponse, answer.body).queues
            except FormatError as error:
                _log.warning("the locks at broker %s are not decided: %s", requested[0].broker_name, error)
                continue
            decisions.decided.extend(requested)
            decisions.granted.extend(granted)
        return decisions

    async def unlock(self, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        """Unlock queues; return those whose broker confirmed: the other locks expire by themselves."""
        confirmed = await self._request(RequestCode.UNLOCK_BATCH_MQ, queues)
        return [queue for requested, _ in confirmed for queue in requested]

    async def _request(
        self, code: RequestCode, queues: Iterable[MessageQueue]
    ) -> list[tuple[list[MessageQueue], Command]]:
        """Send each broker a request for its queues; return queues and responses of the successful ones."""
        by_broker = attrgetter("broker_name")
        groups = [list(group) for _, group in groupby(sorted(queues, key=by_broker), key=by_broker)]
        answers = await asyncio.gather(*(self._request_broker(code, group) for group in groups))
        return [(group, answer) for group, answer in zip(groups, answers, strict=True) if answer is not None]

    async def _request_broker(self, code: RequestCode, queues: list[MessageQueue]) -> Command | None:
        body = encode(LockRequest(self._client_id, self._group, queues))
        try:
            address = await self._routes.master(queues[0])
            command = Command(code, ext_fields={}, body=body)
            return successful(await self._connections.request(address, command))
        except CometMQError as error:
            _log.warning("the locks at broker %s are not decided: %s", queues[0].broker_name, error)
            return None
