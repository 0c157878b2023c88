"""Ordered pop against lists: which queues are blocked, what they give, how often each came, across restarts.

A few seconds by default. ``pytest tests/model --hypothesis-profile long --timeout 0`` makes thousands.
"""

from collections import defaultdict
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.broker.conftest import Bench
from tests.model.pops import COUNT_MAX, FOUND, NO_MESSAGE, QUEUES, STEPS, TOPIC, Got, Group, broker, limits

from cometmq.testing.memory_disk import MemoryDisk

MESSAGES_MAX = COUNT_MAX
"""So many fit into one answer: then it has those of all queues that are not blocked."""
INVISIBLE_MS = st.sampled_from([1_000, 3_500, 10_000])

ACTIONS = st.lists(
    st.one_of(
        st.just(("nothing",)),
        st.tuples(st.just("send"), st.integers(0, QUEUES - 1), st.integers(1, 3)),
        st.tuples(st.just("pop"), INVISIBLE_MS),
        st.tuples(st.just("pop some"), st.integers(0, QUEUES - 1), st.integers(1, 3), INVISIBLE_MS),
        st.tuples(st.just("ack"), st.integers(0, 60)),
        st.tuples(st.just("change"), st.integers(0, 60), INVISIBLE_MS),
        st.tuples(st.just("pass"), st.sampled_from([500, 2_000, 6_000])),
        st.just(("restart",)),
    ),
    min_size=STEPS,
    max_size=STEPS,
)


class Queue:
    """What a group knows of one queue.

    Attributes:
        bodies: all messages, by offset.
        committed: the offset of the first that is not acknowledged.
        given: the offsets of the latest pop, with when each is visible again.
        pop_ms: when that was.
        acknowledged: those of them that are.
        tries: how often each of them had come before.
    """

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.committed = 0
        self.given: dict[int, int] = {}
        self.pop_ms = 0
        self.acknowledged: set[int] = set()
        self.tries: dict[int, int] = {}

    def next(self, clock_ms: int, count: int) -> list[int]:
        """Return the offsets that a pop must give: none while one of the latest pop is held."""
        held = [
            due for offset, due in self.given.items() if offset not in self.acknowledged and clock_ms < due
        ]
        return [] if held else list(range(self.committed, len(self.bodies)))[:count]

    def pop(self, offsets: list[int], clock_ms: int, invisible_ms: int) -> None:
        self.tries = {offset: self.tries[offset] + 1 if offset in self.given else 0 for offset in offsets}
        self.given = dict.fromkeys(offsets, clock_ms + invisible_ms)
        self.pop_ms, self.acknowledged = clock_ms, set()

    def ack(self, offset: int, pop_ms: int) -> int:
        """Acknowledge; return the code of the answer."""
        is_own = pop_ms == self.pop_ms and offset in self.given
        if offset < self.committed or not is_own or offset in self.acknowledged:
            return NO_MESSAGE
        self.acknowledged.add(offset)
        left = [given for given in self.given if given not in self.acknowledged]
        self.committed = min(left, default=max(self.given) + 1)
        return FOUND

    def change(self, offset: int, pop_ms: int, until_ms: int) -> None:
        if offset >= self.committed and pop_ms == self.pop_ms and offset in self.given:
            self.given[offset] = until_ms


class Model:
    """The queues, and all handles that were ever given."""

    def __init__(self) -> None:
        self.passed_ms = 0
        self.queues: dict[int, Queue] = defaultdict(Queue)
        self.handles: list[Got] = []

    @property
    def count(self) -> int:
        return sum(len(queue.bodies) for queue in self.queues.values())

    def take(
        self, found: list[Got], clock_ms: int, expected: dict[int, list[int]], invisible_ms: int
    ) -> None:
        """Check what came, and note it."""
        came: dict[int, list[int]] = defaultdict(list)
        for got in found:
            queue_id, offset = got.queue
            came[queue_id].append(offset)
            assert got.body == self.queues[queue_id].bodies[offset]
        assert came == {queue_id: offsets for queue_id, offsets in expected.items() if offsets}
        for queue_id, offsets in came.items():
            self.queues[queue_id].pop(offsets, clock_ms, invisible_ms)
        for got in found:
            queue_id, offset = got.queue
            assert got.tries == self.queues[queue_id].tries[offset], "its tries are counted wrongly"
        self.handles += found


async def act(bench: Bench, model: Model, action: tuple[Any, ...]) -> None:
    group, clock_ms = Group(bench, "g", is_ordered=True), bench.clock.now_ms()
    match action:
        case ("send", queue_id, count):
            for _ in range(min(count, MESSAGES_MAX - model.count)):
                body = b"m%d" % model.count
                await bench.send(TOPIC, body, queue_id=queue_id, UNIQ_KEY=body.decode())
                model.queues[queue_id].bodies.append(body)
        case ("pop", invisible_ms) if model.count:
            expected = {number: queue.next(clock_ms, COUNT_MAX) for number, queue in model.queues.items()}
            model.take(await group.pop(invisible_ms), clock_ms, expected, invisible_ms)
        case ("pop some", queue_id, count, invisible_ms) if model.count:
            expected = {queue_id: model.queues[queue_id].next(clock_ms, count)}
            model.take(await group.pop(invisible_ms, count, queue_id), clock_ms, expected, invisible_ms)
        case ("ack", number) if model.handles:
            got = model.handles[number % len(model.handles)]
            queue_id, offset = got.queue
            assert await group.ack(got) == model.queues[queue_id].ack(offset, int(got.parts[1]))
        case ("change", number, invisible_ms) if model.handles:
            got = model.handles[number % len(model.handles)]
            queue_id, offset = got.queue
            await group.change(got, invisible_ms)
            model.queues[queue_id].change(offset, int(got.parts[1]), clock_ms + invisible_ms)
        case ("pass", ms):
            bench.clock.advance(ms)
            model.passed_ms += ms


async def live(disk: MemoryDisk, model: Model, actions: list[tuple[Any, ...]]) -> None:
    """Serve until one of the actions ends the broker, or there are no more."""
    async with broker(disk, model.passed_ms) as bench:
        while actions and (action := actions.pop(0)) != ("restart",):
            await act(bench, model, action)
        bench.parts.timed_messages.close()
        bench.parts.orders.save()


@limits()
@given(ACTIONS)
async def test_each_queue_gives_what_is_first_and_not_held(actions: list[tuple[Any, ...]]) -> None:
    disk, model, left = MemoryDisk(), Model(), list(actions)
    while left:
        await live(disk, model, left)
