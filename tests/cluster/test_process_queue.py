from hypothesis import given, settings
from hypothesis import strategies as st

from cometmq.cluster.process_queue import Limits, ProcessQueue, PulledItem


def filled(*queue_offsets: int, cursor: int, size: int = 10) -> ProcessQueue[str]:
    queue: ProcessQueue[str] = ProcessQueue(queue_offsets[0])
    queue.put([PulledItem(offset, size, str(offset)) for offset in queue_offsets], cursor)
    return queue


def test_the_first_message_that_is_not_done_holds_the_commit_back() -> None:
    queue = filled(5, 6, 7, cursor=8)
    queue.done([6, 7])
    assert (queue.commit_offset, len(queue), queue.size) == (5, 1, 10)
    queue.done([5])
    assert (queue.commit_offset, len(queue), queue.size) == (8, 0, 0)


def test_what_nobody_wants_is_passed_over_by_the_cursor() -> None:
    queue: ProcessQueue[str] = ProcessQueue(0)
    queue.put([], 100)
    assert queue.commit_offset == 100


def test_after_a_restart_what_was_being_handled_does_not_count() -> None:
    queue = filled(5, 6, cursor=7)
    queue.restart(2)
    queue.done([5])
    assert (queue.commit_offset, queue.cursor, len(queue), queue.size) == (2, 2, 0, 0)


def test_the_head_is_in_order_and_without_what_is_done() -> None:
    queue = filled(1, 2, 4, 5, cursor=6)
    queue.done([2])
    assert queue.head(2) == ["1", "4"]
    assert queue.head(10) == ["1", "4", "5"]


def test_it_is_full_by_count_by_bytes_and_by_span() -> None:
    queue = filled(0, 1, 50, cursor=51)
    assert not queue.is_full(Limits(3, 30, 50))
    assert queue.is_full(Limits(2, 30, 50))
    assert queue.is_full(Limits(3, 29, 50))
    assert queue.is_full(Limits(3, 30, 49))
    assert not queue.is_full(Limits(3, 30, 49), spans=False)


@settings(max_examples=30)
@given(st.data())
def test_the_commit_offset_is_what_a_plain_set_says(data: st.DataObject) -> None:
    queue: ProcessQueue[int] = ProcessQueue(0)
    waiting: set[int] = set()
    for _ in range(data.draw(st.integers(0, 30))):
        before = queue.commit_offset
        if data.draw(st.booleans()):
            offsets = data.draw(st.lists(st.integers(queue.cursor, queue.cursor + 5), unique=True))
            queue.put([PulledItem(offset, 1, offset) for offset in sorted(offsets)], queue.cursor + 6)
            waiting |= set(offsets)
        elif waiting:
            done = data.draw(st.lists(st.sampled_from(sorted(waiting))))
            queue.done(done)
            waiting -= set(done)
        assert queue.commit_offset == min(waiting, default=queue.cursor)
        assert queue.commit_offset >= before
        assert queue.head(len(waiting)) == sorted(waiting)
        assert (len(queue), queue.size) == (len(waiting), len(waiting))
