"""Pops in order: RocketMQ's examples, and a machine that compares with the history of all events."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from cometmq.cluster.pop.order import QueueOrder, Unblocks, pop_in_order
from cometmq.format.pop.names import RetryFlag
from cometmq.format.pop.offset_info import PoppedQueue, encode_order_counts

NOW_MS = 1_000_000


def popped(*offsets: int, invisible_ms: int = 3_000, attempt_id: str | None = None) -> QueueOrder:
    return pop_in_order(None, offsets, NOW_MS, invisible_ms, attempt_id)


def again(before: QueueOrder, *offsets: int, now_ms: int, attempt_id: str | None = None) -> QueueOrder:
    """Pop once more with the same invisible time, which must be allowed by now."""
    assert not before.is_blocked(attempt_id, now_ms)
    return pop_in_order(before, offsets, now_ms, before.invisible_ms, attempt_id)


def test_an_acknowledged_message_unblocks_its_queue_at_once() -> None:
    order = popped(0)
    assert order.is_blocked(None, NOW_MS) and order.next_offset == 0
    order = order.acknowledge(0)
    assert not order.is_blocked(None, NOW_MS)
    assert (order.next_offset, order.unblocked_ms) == (1, None)


def test_without_acknowledgements_the_same_messages_come_again_when_they_are_visible() -> None:
    first = popped(0, 1, 2, 3, 4)
    assert first.unblocked_ms == NOW_MS + 3_000
    assert first.is_blocked(None, NOW_MS + 2_999)
    second = again(first, *range(first.next_offset, 5), now_ms=NOW_MS + 3_000)
    assert (first.consumed, second.consumed) == ({}, dict.fromkeys(range(5), 1))


def test_a_message_whose_time_was_changed_comes_again_at_that_time() -> None:
    order = popped(0).hide_until(0, NOW_MS + 5_100)
    assert order.is_blocked(None, NOW_MS + 5_099)
    second = again(order, 0, now_ms=NOW_MS + 5_100)
    assert second.consumed == {0: 1}
    assert second.unblocked_ms == NOW_MS + 8_100, "the changed time was that of the first pop"
    assert second.acknowledge(0).next_offset == 1


def test_what_lies_behind_a_message_that_is_not_acknowledged_comes_again_too() -> None:
    order = popped(1, 2, 3, invisible_ms=5_000).acknowledge(1).acknowledge(3).hide_until(2, NOW_MS + 3_000)
    assert order.is_blocked(None, NOW_MS + 2_999)
    assert order.next_offset == 2
    second = again(order, 2, 3, 4, now_ms=NOW_MS + 3_000)
    assert second.consumed == {2: 1, 3: 1}
    queue = PoppedQueue(RetryFlag.NONE, 0, 2, second.offsets)
    assert encode_order_counts({queue: second.consumed}) == "0 qo0%2 1;0 qo0%3 1;0 0 0"


def test_a_pop_that_is_tried_again_is_not_blocked_and_counts_once() -> None:
    order = popped(0, invisible_ms=10_000)
    assert order.is_blocked(None, NOW_MS) and order.is_blocked("attempt-01", NOW_MS + 9_999)
    now_ms = NOW_MS + 10_000
    steps = [("attempt-01", 1, 0), ("attempt-01", 1, 10), ("attempt-02", 2, 10_000), ("attempt-02", 2, 10)]
    for attempt_id, count, pause_ms in steps:
        now_ms += pause_ms
        order = again(order, 0, now_ms=now_ms, attempt_id=attempt_id)
        assert order.consumed == {0: count}
    assert order.is_blocked(None, now_ms + 9_999)
    assert again(order, 0, now_ms=now_ms + 10_000).consumed == {0: 3}


def test_a_message_is_that_of_a_pop_only_with_its_time() -> None:
    order = popped(4, 6)
    assert order.is_waiting(6, NOW_MS)
    assert not order.is_waiting(6, NOW_MS - 1)
    assert not order.is_waiting(5, NOW_MS)


class Pops(RuleBasedStateMachine):
    """One group in one queue, beside the list of all that happened."""

    @initialize()
    def begin(self) -> None:
        """Begin with a queue that was never popped."""
        self.now = NOW_MS
        self.order: QueueOrder | None = None
        self.committed = 0
        self.pops: list[tuple[int, int, tuple[int, ...], str | None]] = []  # time, invisible …
        self.acks: list[tuple[int, int]] = []  # offset and pop time
        self.changes: list[tuple[int, int, int]] = []  # offset, pop time and visible time

    @rule(
        count=st.integers(1, 4), invisible_ms=st.integers(0, 50), attempt_id=st.sampled_from([None, "a", "b"])
    )
    def pop(self, count: int, invisible_ms: int, attempt_id: str | None) -> None:
        """Pop from the committed offset on, unless the queue is blocked."""
        self.now += 1  # no two pops have the same time
        is_blocked = self.order is not None and self.order.is_blocked(attempt_id, self.now)
        is_same = bool(self.pops) and attempt_id is not None and attempt_id == self.pops[-1][3]
        assert is_blocked == (not is_same and any(time > self.now for time in self.hidden().values()))
        if is_blocked:
            return
        offsets = tuple(range(self.committed, self.committed + count))
        self.order = pop_in_order(self.order, offsets, self.now, invisible_ms, attempt_id)
        self.pops.append((self.now, invisible_ms, offsets, attempt_id))
        assert {offset: self.order.consumed.get(offset, 0) for offset in offsets} == {
            offset: self.times(offset, len(self.pops) - 1) for offset in offsets
        }

    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        """Acknowledge a message of any pop."""
        if self.order is not None:
            offset, pop_time_ms = self.draw_popped(data)
            if self.order.is_waiting(offset, pop_time_ms):
                self.order = self.order.acknowledge(offset)
                self.committed = self.order.next_offset
            self.acks.append((offset, pop_time_ms))

    @rule(data=st.data(), invisible_ms=st.integers(0, 50))
    def change(self, data: st.DataObject, invisible_ms: int) -> None:
        """Change when a message of any pop is visible."""
        if self.order is not None:
            offset, pop_time_ms = self.draw_popped(data)
            if self.order.is_waiting(offset, pop_time_ms):
                self.order = self.order.hide_until(offset, self.now + invisible_ms)
            self.changes.append((offset, pop_time_ms, self.now + invisible_ms))

    @rule(ms=st.integers(1, 40))
    def wait(self, ms: int) -> None:
        """Advance the time."""
        self.now += ms

    @invariant()
    def all_before_the_committed_offset_is_acknowledged_and_the_next_is_not(self) -> None:
        """Compare with the history."""
        acknowledged = {offset for offset, _ in self.acks}
        assert acknowledged.issuperset(range(self.committed))
        if self.pops:
            pop_time_ms, _, offsets, _ = self.pops[-1]
            assert offsets[0] <= self.committed <= offsets[-1] + 1
            assert (self.committed, pop_time_ms) not in self.acks

    @invariant()
    def a_queue_is_unblocked_when_its_last_message_is_visible(self) -> None:
        """Compare with the history."""
        if self.order is not None:
            assert self.order.unblocked_ms == max(self.hidden().values(), default=None)

    def draw_popped(self, data: st.DataObject) -> tuple[int, int]:
        """Return the offset and pop time of a message, mostly of the last pops."""
        pop_time_ms, _, offsets, _ = data.draw(st.sampled_from(self.pops[-3:]))
        return data.draw(st.sampled_from(offsets)), pop_time_ms

    def hidden(self) -> dict[int, int]:
        """Return when each message of the last pop that is not acknowledged is visible."""
        if not self.pops:
            return {}
        pop_time_ms, invisible_ms, offsets, _ = self.pops[-1]
        times = dict.fromkeys(offsets, pop_time_ms + invisible_ms)
        times |= {offset: time for offset, of_pop, time in self.changes if of_pop == pop_time_ms}
        return {offset: time for offset, time in times.items() if (offset, pop_time_ms) not in self.acks}

    def times(self, offset: int, number: int) -> int:
        """Return how often a message was popped before a pop, by the pops that led to it."""
        if number == 0:
            return 0
        (_, _, before, last_id), (_, _, offsets, attempt_id) = self.pops[number - 1 : number + 1]
        if attempt_id is not None and attempt_id == last_id:
            return self.times(offset, number - 1)
        if offset in offsets and offset in before:
            return self.times(offset, number - 1) + 1
        return 0


TestPops = Pops.TestCase


def test_queues_are_unblocked_at_the_first_of_their_times() -> None:
    unblocks = Unblocks()
    a, b = ("T", "g", 0), ("T", "g", 1)
    assert unblocks.next_ms() is None and unblocks.take(99) == []
    for queue, time_ms in ((a, 30), (b, 20), (a, 10), (a, 40), (a, 10)):
        unblocks.add(queue, time_ms)
    assert unblocks.next_ms() == 10
    assert unblocks.take(9) == []
    assert unblocks.take(25) == [a, b]
    assert unblocks.next_ms() is None and unblocks.take(99) == []
