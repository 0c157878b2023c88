from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from cometmq.cluster.pop.revive import MARGIN_MS, ReviveQueue, put_again
from cometmq.format.pop.check_point import CheckPoint, PopAck

POINT = CheckPoint("T", "g", 0, 10, 100_000, 5_000, (0, 1, 3), "b")
"""Its messages are visible again at 105,000 ms."""


def ack(*offsets: int, point: CheckPoint = POINT) -> PopAck:
    return PopAck(*point.key, offsets)


def queue_of(*points: CheckPoint) -> ReviveQueue:
    queue = ReviveQueue(7)
    for number, point in enumerate(points):
        queue.add(point, 7 + number)
        queue.mark_read(7 + number, point.revive_time_ms - 1_000)
    return queue


def test_what_is_not_acknowledged_comes_back_once_the_timer_has_delivered_all_up_to_that_time() -> None:
    queue = queue_of(POINT)
    queue.acknowledge(ack(11))
    assert queue.take(queue.complete_until_ms(104_999), 10) == []
    (taken,) = queue.take(queue.complete_until_ms(105_000), 10)
    assert taken.left == {10, 13}
    assert queue.committed == 6, "it is not finished yet"
    queue.finish(taken)
    assert queue.committed == 7 and len(queue) == 0


def test_before_the_end_of_the_queue_a_record_that_was_due_later_completes_a_check_point() -> None:
    queue = queue_of(POINT)
    queue.mark_read(8, 105_000 + MARGIN_MS - 1)
    assert queue.take(queue.complete_until_ms(None), 10) == []
    queue.mark_read(9, None)  # stored directly: it says nothing about the timer
    assert queue.take(queue.complete_until_ms(None), 10) == []
    queue.mark_read(10, 105_000 + MARGIN_MS)
    assert len(queue.take(queue.complete_until_ms(None), 10)) == 1


def test_a_check_point_whose_messages_are_all_acknowledged_is_finished_at_once() -> None:
    queue = queue_of(POINT)
    queue.acknowledge(ack(10, 11))
    queue.acknowledge(ack(13))
    assert (len(queue), queue.next_ms(), queue.committed) == (0, None, 7)


def test_an_acknowledgement_of_another_pop_of_the_same_messages_counts_for_that_only() -> None:
    queue = queue_of(POINT)
    queue.acknowledge(ack(10, 11, 13, point=POINT._replace(pop_time_ms=99_000)))
    assert queue.take(105_000, 10)[0].left == {10, 11, 13}


def test_a_check_point_that_comes_twice_is_one() -> None:
    queue = queue_of(POINT, POINT)
    queue.acknowledge(ack(10))
    assert [one.left for one in queue.take(105_000, 10)] == [{11, 13}]


def test_check_points_come_in_the_order_of_their_times_and_the_first_unfinished_one_holds_the_offset() -> (
    None
):
    later = POINT._replace(begin_offset=50, invisible_ms=9_000)
    queue = queue_of(later, POINT)
    (first,) = queue.take(200_000, 1)
    assert first.point == POINT
    queue.finish(first)
    assert queue.committed == 6, "the later one lies before it in the queue"
    (second,) = queue.take(200_000, 1)
    queue.put_back(second)
    assert queue.next_ms() == later.revive_time_ms and queue.committed == 6
    queue.finish(*queue.take(200_000, 5))
    assert queue.committed == 8


def test_a_message_that_cannot_be_read_is_hidden_for_longer_each_time() -> None:
    again = put_again(POINT, 13, 106_000)
    assert (again.offsets, again.re_put_times, again.pop_time_ms) == ((13,), 1, 100_000)
    assert again.revive_time_ms == 116_000
    assert put_again(again, 13, 116_000).revive_time_ms == 136_000
    assert put_again(POINT._replace(re_put_times=99), 10, 106_000).revive_time_ms == 106_000 + 7_200_000


class Restarts(RuleBasedStateMachine):
    """A queue that is read, revived and read anew, beside a list of what happened."""

    @initialize()
    def begin(self) -> None:
        """Begin with an empty queue."""
        self.log: list[tuple[CheckPoint | PopAck, int]] = []  # record and due time, in the timer's order
        self.waiting: list[tuple[int, CheckPoint | PopAck]] = []
        self.now = 1_000_000
        self.acked: set[int] = set()
        self.revived: list[int] = []
        self.popped = 0
        self.crashes = 0
        self.queue = ReviveQueue(0)

    @rule(count=st.integers(1, 4), invisible_ms=st.integers(0, 6_000))
    def pop(self, count: int, invisible_ms: int) -> None:
        """Deliver the next messages."""
        distances = tuple(range(count))
        point = CheckPoint("T", "g", 0, self.popped, self.now, invisible_ms, distances, "b")
        self.popped += count
        self._store(point, point.revive_time_ms - 1_000)

    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        """Acknowledge a message, in time."""
        points = [one for one in self._points() if self.now < one.revive_time_ms]
        if points:
            point = data.draw(st.sampled_from(points))
            offset = data.draw(st.sampled_from(point.offsets))
            self.acked.add(offset)
            self._store(PopAck(*point.key, (offset,)), point.revive_time_ms)

    @rule(ms=st.integers(1, 3_000))
    def wait(self, ms: int) -> None:
        """Let time pass, and the timer deliver."""
        self.now += ms
        due = sorted((one for one in self.waiting if one[0] <= self.now), key=lambda one: one[0])
        self.waiting = [one for one in self.waiting if one[0] > self.now]
        self.log += [(record, time) for time, record in due]

    @rule(upto=st.integers(1, 40))
    def revive(self, upto: int) -> None:
        """Read some records, or all, and revive what is complete."""
        end = len(self.log)
        for offset in range(self.queue.next_offset, min(end, self.queue.next_offset + upto)):
            record, due_ms = self.log[offset]
            if isinstance(record, CheckPoint):
                self.queue.add(record, offset)
            else:
                self.queue.acknowledge(record)
            self.queue.mark_read(offset, due_ms)
        is_at_end = self.queue.next_offset == end
        until_ms = self.queue.complete_until_ms(self.now if is_at_end else None)
        for check_point in self.queue.take(until_ms, 3):
            assert check_point.point.revive_time_ms <= self.now, "none comes before its time"
            self.revived += sorted(check_point.left)
            self.queue.finish(check_point)

    @rule()
    def crash(self) -> None:
        """Begin anew behind the committed offset."""
        self.crashes += 1
        self.queue = ReviveQueue(self.queue.committed + 1)

    @invariant()
    def no_acknowledged_message_came_back_and_others_once(self) -> None:
        """Compare with the model."""
        assert self.acked.isdisjoint(self.revived)
        if not self.crashes:
            assert len(self.revived) == len(set(self.revived))

    def teardown(self) -> None:
        """In the end each message is acknowledged or came back."""
        self.wait(60_000)
        while self.queue.next_offset < len(self.log) or len(self.queue):
            self.revive(1_000)
        assert self.acked | set(self.revived) == set(range(self.popped))

    def _points(self) -> list[CheckPoint]:
        records = [record for record, _ in self.log] + [record for _, record in self.waiting]
        return [record for record in records if isinstance(record, CheckPoint)]

    def _store(self, record: CheckPoint | PopAck, due_ms: int) -> None:
        if due_ms <= self.now:
            self.log.append((record, due_ms))
        else:
            self.waiting.append((due_ms, record))


TestRestarts = Restarts.TestCase
