"""Reduce the number of a topic's queues, in the order that loses no message.

1. Lower the write queues on every broker: producers learn of it when they next fetch the route, and
   until then a broker still stores what arrives, since it counts the larger of write and read queues.
2. Wait until nothing has arrived in the retired queues for a while, and every group that consumes the topic
   has committed everything in them.
3. Lower the read queues. From then on brokers refuse what a producer sends there. Then check for messages
   that arrived in the last moment: if there are any, raise the read queues again and continue with step 2.

If this is interrupted, all messages of the topic can still be read, and it can be run again. If it is
interrupted within step 3, it raises the read queues first. If a broker refuses that, or the process is killed
in that moment, ``cometmq topic update`` raises them.
"""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from cometmq.admin.topics import TopicAdmin
from cometmq.arguments import FLAG, SECONDS, TEXT, TEXTS, check, number
from cometmq.errors import CometMQError, NetworkError, RemoteError
from cometmq.format.layout import valid_topic
from cometmq.message import MessageQueue
from cometmq.wire import headers as h
from cometmq.wire.bodies.body import decode
from cometmq.wire.bodies.group import GroupNames
from cometmq.wire.bodies.topic import TopicConfig
from cometmq.wire.codes import RequestCode, ResponseCode

SETTLE_S: Final = 35.0
"""RocketMQ's clients fetch routes every 30 s: after this time without messages no producer sends there."""
POLL_S: Final = 1.0
TOLD_MAX: Final = 5
"""Most queues named in an error."""


class Step(Enum):
    """The current step of a shrink."""

    LOWERING_WRITE = "lowering write queues"
    DRAINING = "waiting for consumers"
    SETTLING = "waiting for producers"
    LOWERING_READ = "lowering read queues"


class Unconsumed(NamedTuple):
    """Unconsumed messages of a retired queue; ``group`` is None if no group consumes the topic."""

    broker_name: str
    queue_id: int
    group: str | None
    messages: int

    def __str__(self) -> str:
        """Return a text for people."""
        who = "no group consumes" if self.group is None else f"group {self.group} has not consumed"
        return f"{who} {self.messages} messages of queue {self.queue_id} on {self.broker_name}"


class Progress(NamedTuple):
    """The progress of a shrink.

    Attributes:
        left: the messages still to be consumed.
        quiet_s: time in seconds since a message last arrived in the retired queues.
    """

    step: Step
    left: Sequence[Unconsumed] = ()
    quiet_s: float = 0.0


class ShrinkResult(NamedTuple):
    """The result of a shrink.

    Attributes:
        retired: the removed queues; empty if there was nothing to do.
        groups: the groups that consumed them.
    """

    topic: str
    queues: int
    retired: list[MessageQueue]
    groups: list[str]


class NotDrained(CometMQError):
    """Retired queues hold messages that would be lost; they can still be read.

    Attributes:
        left: the messages still to be consumed; empty if producers do not stop sending.
    """

    def __init__(self, reason: str, left: Sequence[Unconsumed]) -> None:
        super().__init__(reason)
        self.left = left


class NotReadable(CometMQError):
    """Read queues stay lowered although a message may have arrived before; the text says what to run."""


class _Broker(NamedTuple):
    """A broker that has the topic."""

    name: str
    address: str
    config: TopicConfig

    def retired(self, queues: int) -> range:
        """Return the ids of the queues to retire if ``queues`` are to be left."""
        return range(queues, max(self.config.read_queue_count, self.config.write_queue_count))


class _QueueState(NamedTuple):
    """The state of the retired queues at one moment.

    Attributes:
        left: the messages still to be consumed.
        end: the sum of the queues' ends, which grows with each message that arrives.
        groups: the groups that consume the topic.
    """

    left: list[Unconsumed]
    end: int
    groups: list[str]


async def shrink(
    admin: TopicAdmin,
    topic: str,
    queues: int,
    *,
    timeout_s: float = 600.0,
    settle_s: float = SETTLE_S,
    no_consumers_ok: bool = False,
    skipped_groups: Collection[str] = (),
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> ShrinkResult:
    """Lower a topic to ``queues`` queues on each broker.

    Args:
        settle_s: time in seconds without messages in the retired queues before they are removed.
        no_consumers_ok: abandon their messages if no group consumes the topic.
        skipped_groups: groups that need not have consumed the messages.

    Raises:
        NotDrained: messages would be lost: after ``timeout_s``, or at once if no group consumes the topic.
        NotReadable: it was interrupted while lowering the read queues, and a broker does not raise them
        again. NoRoute: no broker has the topic, or one of them has no master now.
        RemoteError: a broker refuses.
        NetworkError: a server does not answer.
    """
    check(TEXT, topic=topic)
    check(number(1), queues=queues)
    check(SECONDS, timeout_s=timeout_s, settle_s=settle_s)
    check(FLAG, no_consumers_ok=no_consumers_ok)
    check(TEXTS, skipped_groups=skipped_groups)
    work = _Shrink(admin, topic, queues, no_consumers_ok=no_consumers_ok, skipped=skipped_groups)
    await work.find_brokers()
    if not work.retired:
        return ShrinkResult(topic, queues, [], [])
    first = await work.inspect()
    if first.left and not first.groups:
        raise _refusal("these messages would be lost", first.left)
    on_progress(Progress(Step.LOWERING_WRITE, first.left))
    await work.put(lambda config: replace(config, write_queue_count=min(config.write_queue_count, queues)))
    deadline = asyncio.get_running_loop().time() + timeout_s
    while True:
        await _drain(work, settle_s, deadline, on_progress)
        on_progress(Progress(Step.LOWERING_READ))
        if (last := await _lower_read(work)) is not None:
            return ShrinkResult(topic, queues, work.retired, last.groups)


async def _drain(
    work: "_Shrink", settle_s: float, deadline: float, on_progress: Callable[[Progress], None]
) -> None:
    """Wait until everything is consumed and nothing arrives any more. Raises NotDrained at the deadline."""
    now = asyncio.get_running_loop().time
    end, since = -1, now()
    while True:
        state = await work.inspect()
        if state.end != end:
            end, since = state.end, now()
        quiet_s = now() - since
        on_progress(Progress(Step.DRAINING if state.left else Step.SETTLING, state.left, quiet_s))
        if not state.left and quiet_s >= settle_s:
            return
        if now() >= deadline:
            why = "in time: write queues are lowered, all messages can still be read, run it again later"
            if state.left:
                raise _refusal(f"not drained {why}", state.left)
            raise NotDrained(
                f"topic {work.topic}: producers did not stop sending to retired queues {why}", []
            )
        await asyncio.sleep(min(POLL_S, max(settle_s - quiet_s, 0.05)))


async def _lower_read(work: "_Shrink") -> _QueueState | None:
    """Lower the read queues; if a message has arrived in the last moment, raise them again and return None.

    They are raised as well if this is interrupted before it knows, since nobody else would check.
    """
    before = work.brokers
    last: _QueueState | None = None
    try:
        await _run_to_end(work.lower_read())
        state = await work.inspect()
        if not state.left:
            await asyncio.sleep(POLL_S)  # an accepted message may still be on its way to the disk
            state = await work.inspect()
        if not state.left:
            last = state
    finally:
        if last is None:
            await _run_to_end(work.raise_read(before))
    return last


async def _run_to_end(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine to its end, even if this is cancelled meanwhile: no later change may overtake it."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancelled = error
    task.result()
    if cancelled is not None:
        raise cancelled


class _Shrink:
    """A shrink in progress: the brokers of the topic, and the retired queues."""

    def __init__(
        self,
        admin: TopicAdmin,
        topic: str,
        queues: int,
        *,
        no_consumers_ok: bool,
        skipped: Collection[str],
    ) -> None:
        self.topic = valid_topic(topic)
        self.queues = queues
        self.brokers: list[_Broker] = []
        self.retired: list[MessageQueue] = []
        self._admin = admin
        self._no_consumers_ok = no_consumers_ok
        self._skipped = skipped
        self._addresses: dict[str, str] = {}

    async def find_brokers(self) -> None:
        """Find the brokers that have the topic, and the queues to retire."""
        configs = await self._admin.configs(self.topic)
        self.brokers = [_Broker(name, address, config) for name, (address, config) in configs.items()]
        self.retired = [
            MessageQueue(self.topic, broker.name, queue_id)
            for broker in self.brokers
            for queue_id in broker.retired(self.queues)
        ]
        self._addresses = {broker.name: broker.address for broker in self.brokers}

    async def put(self, change: Callable[[TopicConfig], TopicConfig]) -> None:
        """Change the topic's settings on every broker."""
        for broker in self.brokers:
            if (config := change(broker.config)) != broker.config:
                await self.put_one(broker, config)

    async def lower_read(self) -> None:
        """Lower the read queues on every broker."""
        await self.put(
            lambda config: replace(config, read_queue_count=min(config.read_queue_count, self.queues))
        )

    async def raise_read(self, before: Sequence[_Broker]) -> None:
        """Restore the read queues on all brokers, as far as possible. Raises NotReadable if one fails."""
        failures = []
        for broker, had in zip(self.brokers, before, strict=True):
            if had.config.read_queue_count <= self.queues:
                continue
            try:
                config = replace(broker.config, read_queue_count=had.config.read_queue_count)
                await self.put_one(broker, config)
            except (NetworkError, RemoteError) as error:
                failures.append(f"{broker.name}: {error}")
        if failures:
            most = max(had.config.read_queue_count for had in before)
            raise NotReadable(
                f"topic {self.topic}: read queues are lowered, and could not be raised again on "
                f"{'; '.join(failures)}: messages of the last moment cannot be read there; run "
                f"cometmq topic update {self.topic} --queues {most}, then shrink again"
            )

    async def put_one(self, broker: _Broker, config: TopicConfig) -> None:
        """Change the topic's settings on one broker; its attributes stay as they are."""
        await self._admin.put(broker.address, config)
        self.brokers = [other._replace(config=config) if other == broker else other for other in self.brokers]

    async def inspect(self) -> _QueueState:
        """Return the state of the retired queues."""
        groups = await self._groups()
        states = await asyncio.gather(*(self._inspect_queue(queue, groups) for queue in self.retired))
        left = [left for lefts, _ in states for left in lefts]
        return _QueueState(left, sum(end for _, end in states), groups)

    async def _groups(self) -> list[str]:
        code, header = RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, h.TopicHeader(self.topic)
        found: set[str] = set()
        for broker in self.brokers:
            answer = await self._admin.ask(broker.address, code, header)
            found.update(decode(GroupNames, answer.body).groups)
        return sorted(found - set(self._skipped))

    async def _inspect_queue(
        self, queue: MessageQueue, groups: Iterable[str]
    ) -> tuple[list[Unconsumed], int]:
        """Return the unconsumed messages of one queue, and its end."""
        _, name, queue_id = queue
        topic = self.topic
        begin = await self._offset(name, RequestCode.GET_MIN_OFFSET, h.GetMinOffsetHeader(topic, queue_id))
        end = await self._offset(name, RequestCode.GET_MAX_OFFSET, h.GetMaxOffsetHeader(topic, queue_id))
        if end <= begin:
            return [], end
        left = []
        for group in groups:
            done = max(await self._committed(name, group, queue_id), begin)
            if done < end:
                left.append(Unconsumed(name, queue_id, group, end - done))
        if not groups and not self._no_consumers_ok:
            left.append(Unconsumed(name, queue_id, None, end - begin))
        return left, end

    async def _committed(self, broker_name: str, group: str, queue_id: int) -> int:
        header = h.QueryConsumerOffsetHeader(group, self.topic, queue_id, set_zero_if_not_found=False)
        try:
            return await self._offset(broker_name, RequestCode.QUERY_CONSUMER_OFFSET, header)
        except RemoteError as error:
            if error.code != ResponseCode.QUERY_NOT_FOUND:
                raise
            return 0

    async def _offset(self, broker_name: str, code: RequestCode, header: h.Header) -> int:
        answer = await self._admin.ask(self._addresses[broker_name], code, header)
        return h.parse(h.OffsetResponseHeader, answer.ext_fields).offset


def _refusal(why: str, left: Sequence[Unconsumed]) -> NotDrained:
    told = "; ".join(map(str, left[:TOLD_MAX]))
    more = f"; and {len(left) - TOLD_MAX} more" if len(left) > TOLD_MAX else ""
    return NotDrained(f"{why}: {told}{more}", left)
