from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from cometmq.cluster.pop.revive import OpenCheckPoint, ReviveQueue, put_again
from cometmq.format.pop.check_point import CheckPoint, PopAck, PopKey

NOW = 1_000_000
POINT = CheckPoint("T", "g", 0, 10, 100_000, 5_000, (0, 1, 3), "b")
"""Its messages are visible again at 105,000 ms."""


def ack(*offsets: int, point: CheckPoint = POINT) -> PopAck:
    return PopAck(*point.key, offsets)


def queue_of(*points: CheckPoint, open_max: int = 100) -> ReviveQueue:
    queue = ReviveQueue(7, open_max)
    for number, point in enumerate(points):
        queue.add(point, 7 + number)
        queue.mark_read(7 + number, point.revive_time_ms - 1_000)
    return queue


def taken_by(queue: ReviveQueue, delivered_ms: int, count: int = 10) -> list[OpenCheckPoint]:
    """Return what is complete when the timer has delivered all up to a time and all is read."""
    queue.mark_delivered(delivered_ms, queue.next_offset)
    return queue.take(NOW, count)


def test_what_is_not_acknowledged_comes_back_once_the_timer_has_delivered_all_up_to_that_time() -> None:
    queue = queue_of(POINT)
    queue.acknowledge(ack(11), 9, None)
    assert taken_by(queue, 104_999) == []
    (taken,) = taken_by(queue, 105_000)
    assert taken.left == {10, 13}
    assert queue.committed == 6, "it is not finished yet"
    queue.finish(taken)
    assert queue.committed == 7 and len(queue) == 0


def test_what_the_timer_has_delivered_counts_once_the_queue_is_read_to_the_end_of_then() -> None:
    queue = queue_of(POINT)
    queue.mark_delivered(105_000, 10)
    queue.mark_read(8, 500_000)
    assert queue.take(NOW, 10) == [], "due times of other records say nothing about late acknowledgements"
    queue.mark_delivered(106_000, 20)
    queue.acknowledge(ack(10, 11), 9, 105_000)
    queue.mark_read(9, 105_000)
    queue.mark_delivered(107_000, 30)
    assert [one.left for one in queue.take(NOW, 10)] == [{13}]


def test_a_check_point_whose_messages_are_all_acknowledged_is_finished_at_once() -> None:
    queue = queue_of(POINT)
    queue.acknowledge(ack(10, 11), 9, None)
    queue.acknowledge(ack(13), 9, None)
    assert (len(queue), queue.next_ms(), queue.committed) == (0, None, 7)


def test_an_early_acknowledgement_is_read_again_until_its_check_point_is_finished() -> None:
    queue = ReviveQueue(7)
    queue.acknowledge(ack(10), 7, 105_000)
    queue.mark_read(7, 105_000)
    queue.add(POINT, 8)
    queue.mark_read(8, 104_000)
    assert queue.committed == 6, "after a kill the check point alone would bring back what is acknowledged"
    (taken,) = taken_by(queue, 105_000)
    assert (taken.left, queue.committed) == ({11, 13}, 6)
    queue.finish(taken)
    assert queue.committed == 8


def test_an_early_acknowledgement_is_not_needed_once_all_messages_are_acknowledged() -> None:
    queue = ReviveQueue(7)
    queue.acknowledge(ack(10), 7, 105_000)
    queue.mark_read(7, 105_000)
    queue.add(POINT, 8)
    queue.acknowledge(ack(11, 13), 9, 105_000)
    queue.mark_read(9, 105_000)
    assert queue.committed == 9


def test_a_queue_is_done_until_the_first_time_that_is_not_complete_or_finished() -> None:
    queue = queue_of(POINT, POINT._replace(begin_offset=50, pop_time_ms=200_000))
    assert not queue.is_done_until(104_000), "more may be in the timer"
    (taken,) = taken_by(queue, 106_000)
    assert not queue.is_done_until(105_000), "it may have to be put back"
    queue.finish(taken)
    assert queue.is_done_until(106_000) and not queue.is_done_until(106_001)
    queue.mark_delivered(300_000, queue.next_offset)
    assert queue.is_done_until(204_999) and not queue.is_done_until(205_000)


def test_check_points_that_memory_has_no_room_for_are_read_again_and_late_acknowledgements_count() -> None:
    points = [POINT._replace(begin_offset=100 * number) for number in range(5)]
    log: list[tuple[CheckPoint | PopAck, int]] = [(point, 104_000) for point in points]
    log += [
        (ack(401, point=points[4]), 105_000),
        (POINT._replace(begin_offset=900), 120_000),
        (ack(400, point=points[4]), 105_000),  # late
    ]
    queue = ReviveQueue(0, open_max=2)
    finished: list[set[int]] = []
    reads = 0
    while queue.committed != len(log) - 1:
        queue.mark_delivered(130_000, len(log))
        for one in queue.take(NOW, 10):
            finished.append(one.left)
            queue.finish(one)
        if queue.next_offset < len(log):
            reads += 1
            record, due_ms = log[offset := queue.next_offset]
            if isinstance(record, CheckPoint):
                queue.add(record, offset)
            else:
                queue.acknowledge(record, offset, due_ms)
            queue.mark_read(offset, due_ms)
        assert len(queue) <= 2
    assert finished == [
        *({start, start + 1, start + 3} for start in (0, 100, 200, 300)),
        {403},
        {900, 901, 903},
    ]
    assert reads == 8 + 6 + 4, "it begins again at the third and at the fifth"


def test_an_acknowledgement_that_comes_before_its_check_point_is_kept_until_that_time_is_over() -> None:
    queue = ReviveQueue(7)
    queue.acknowledge(ack(10, 11), 7, 105_000)
    queue.mark_read(7, 105_000)
    queue.mark_delivered(104_999, 8)
    assert queue.committed == 6, "after a crash it is read again"
    assert queue.wake_ms() == 105_000
    queue.add(POINT, 8)
    queue.mark_read(8, 104_000)
    assert [one.left for one in taken_by(queue, 105_000)] == [{13}]
    queue = ReviveQueue(7)
    queue.acknowledge(ack(10, 11), 7, 105_000)
    queue.mark_read(7, 105_000)
    queue.mark_delivered(105_000, 8)
    assert queue.committed == 7, "its check point is finished, or never comes"


def test_what_was_skipped_is_read_again_as_soon_as_there_is_room() -> None:
    queue = queue_of(POINT, POINT._replace(begin_offset=50), open_max=1)
    assert queue.wake_ms() == 105_000
    queue.acknowledge(ack(10, 11, 13), 9, 105_000)
    assert (queue.wake_ms(), queue.committed) == (0, 7)
    queue.mark_delivered(104_000, 9)
    assert queue.next_offset == 8


def test_an_acknowledgement_of_another_pop_of_the_same_messages_counts_for_that_only() -> None:
    queue = queue_of(POINT)
    queue.acknowledge(ack(10, 11, 13, point=POINT._replace(pop_time_ms=99_000)), 9, None)
    assert taken_by(queue, 105_000)[0].left == {10, 11, 13}


def test_a_check_point_that_comes_twice_is_one() -> None:
    queue = queue_of(POINT, POINT)
    queue.acknowledge(ack(10), 9, None)
    assert [one.left for one in taken_by(queue, 105_000)] == [{11, 13}]


def test_another_check_point_of_the_same_millisecond_adds_its_messages() -> None:
    other = POINT._replace(distances=(0, 4), invisible_ms=9_000)
    queue = queue_of(POINT, other)
    queue.acknowledge(ack(10), 9, None)
    assert taken_by(queue, 105_000) == []
    assert [one.left for one in taken_by(queue, 109_000)] == [{11, 13, 14}]
    assert queue.next_ms() is None


def test_check_points_come_in_the_order_of_their_times_and_the_first_unfinished_one_holds_the_offset() -> (
    None
):
    later = POINT._replace(begin_offset=50, invisible_ms=9_000)
    queue = queue_of(later, POINT)
    (first,) = taken_by(queue, 200_000, 1)
    assert first.point == POINT
    queue.finish(first)
    assert queue.committed == 6, "the later one lies before it in the queue"
    (second,) = taken_by(queue, 200_000, 1)
    queue.put_back(second)
    assert queue.next_ms() == later.revive_time_ms and queue.committed == 6
    queue.finish(*taken_by(queue, 200_000, 5))
    assert queue.committed == 8


def test_a_message_that_cannot_be_read_is_hidden_for_longer_each_time() -> None:
    again = put_again(POINT, 13, 106_000)
    assert (again.offsets, again.re_put_times, again.pop_time_ms) == ((13,), 1, 100_000)
    assert again.revive_time_ms == 116_000
    assert put_again(again, 13, 116_000).revive_time_ms == 136_000
    assert put_again(POINT._replace(re_put_times=99), 10, 106_000).revive_time_ms == 106_000 + 7_200_000


def due_of(record: CheckPoint | PopAck, points: dict[PopKey, CheckPoint]) -> int:
    """Return when a record is due: a check point a second before its acknowledgements."""
    ahead_ms = 1_000 if isinstance(record, CheckPoint) else 0
    return points[record.key].revive_time_ms - ahead_ms


class Restarts(RuleBasedStateMachine):
    """A queue that is read, revived and read anew, beside a list of what happened.

    The timer is behind at times: acknowledgements come to the queue behind records that are due later.
    """

    @initialize(open_max=st.sampled_from([1, 2, 5, 1_000]))
    def begin(self, open_max: int) -> None:
        """Begin with an empty queue."""
        self.open_max = open_max
        self.log: list[tuple[CheckPoint | PopAck, int | None]] = []  # record, and its due time in the timer
        self.waiting: list[tuple[int, CheckPoint | PopAck]] = []
        self.unread: list[tuple[int, CheckPoint | PopAck]] = []  # stored, and not in the timer yet
        self.now = 1_000_000
        self.delivered: tuple[int, int] | None = None
        self.acked: set[int] = set()
        self.revived: list[int] = []
        self.popped = 0
        self.crashes = 0
        self.queue = ReviveQueue(0, open_max)

    @rule(count=st.integers(1, 4), invisible_ms=st.sampled_from([0, 1, 1_000, 1_500, 6_000, 20_000]))
    def pop(self, count: int, invisible_ms: int) -> None:
        """Deliver the next messages."""
        distances = tuple(range(count))
        point = CheckPoint("T", "g", 0, self.popped, self.now, invisible_ms, distances, "b")
        self.popped += count
        self._store(point, point.revive_time_ms - 1_000)

    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        """Acknowledge messages, in time."""
        points = [one for one in self._points() if self.now < one.revive_time_ms]
        if points:
            point = data.draw(st.sampled_from(points))
            offsets = data.draw(st.sets(st.sampled_from(point.offsets), min_size=1))
            self.acked |= offsets
            self._store(PopAck(*point.key, tuple(offsets)), point.revive_time_ms)

    @rule(ms=st.sampled_from([1, 500, 1_000, 3_000, 30_000]))
    def wait(self, ms: int) -> None:
        """Advance the time."""
        self.now += ms

    @rule(adds=st.booleans(), slots=st.integers(0, 5))
    def run_timer(self, adds: bool, slots: int) -> None:
        """Hand what is stored to the timer, or not; deliver some seconds, or all of what is due."""
        second = self.now // 1_000 * 1_000
        if adds:
            for time_ms, record in self.unread:
                is_slot_there = any(slot_ms == time_ms for slot_ms, _ in self.waiting)
                self.waiting.append((time_ms if is_slot_there else max(time_ms, second), record))
            self.unread.clear()
        points = {point.key: point for point in self._points()}
        due = sorted({slot_ms for slot_ms, _ in self.waiting if slot_ms < second})
        for slot_ms in due[:slots] if slots else due:
            self.log += [(record, due_of(record, points)) for time, record in self.waiting if time == slot_ms]
            self.waiting = [one for one in self.waiting if one[0] != slot_ms]
        if not self.unread:
            times = [min(slot_ms, due_of(record, points) - 1) for slot_ms, record in self.waiting]
            self.delivered = min([self.now, *times]), len(self.log)

    @rule(upto=st.integers(1, 40))
    def revive(self, upto: int) -> None:
        """Read some records, or all, and revive what is complete."""
        if self.delivered is not None:
            self.queue.mark_delivered(*self.delivered)
        begin = self.queue.next_offset
        for offset in range(begin, min(len(self.log), begin + upto)):
            record, due_ms = self.log[offset]
            if isinstance(record, CheckPoint):
                self.queue.add(record, offset)
            else:
                self.queue.acknowledge(record, offset, due_ms)
            self.queue.mark_read(offset, due_ms)
        assert len(self.queue) <= self.open_max
        for check_point in self.queue.take(self.now, 3):
            assert check_point.point.revive_time_ms <= self.now, "none comes before its time"
            self.revived += sorted(check_point.left)
            self.queue.finish(check_point)

    @rule()
    def fail(self) -> None:
        """Remove what is complete, and return it."""
        for check_point in self.queue.take(self.now, 2):
            self.queue.put_back(check_point)

    @rule()
    def crash(self) -> None:
        """Begin anew behind the committed offset."""
        self.crashes += 1
        self.queue = ReviveQueue(self.queue.committed + 1, self.open_max)

    @invariant()
    def no_acknowledged_message_came_back_and_others_once(self) -> None:
        """Compare with the model."""
        assert self.acked.isdisjoint(self.revived)
        if not self.crashes:
            assert len(self.revived) == len(set(self.revived))

    def teardown(self) -> None:
        """In the end each message is acknowledged or came back."""
        self.wait(60_000)
        for _ in range(10_000):
            self.run_timer(adds=True, slots=0)
            self.revive(1_000)
            if self.queue.committed == len(self.log) - 1 and not self.waiting:
                break
            self.now += 1_000
        assert self.acked | set(self.revived) == set(range(self.popped))

    def _points(self) -> list[CheckPoint]:
        records = [record for record, _ in self.log] + [one for _, one in self.waiting + self.unread]
        return [record for record in records if isinstance(record, CheckPoint)]

    def _store(self, record: CheckPoint | PopAck, due_ms: int) -> None:
        if due_ms <= self.now:
            self.log.append((record, None))
        else:
            self.unread.append(((due_ms - 1) // 1_000 * 1_000, record))  # its slot


TestRestarts = Restarts.TestCase
