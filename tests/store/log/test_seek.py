"""Finding a queue offset by time, held against a list that is simply gone through."""

from hypothesis import given
from hypothesis import strategies as st
from tests.store.conftest import ROOT, new_message

from cometmq.format import layout
from cometmq.format.host import pack_host
from cometmq.format.queue_entry import FILLER, SIZE
from cometmq.io.open_files import OpenFiles
from cometmq.store.files.spread import LogSpread
from cometmq.store.log.commit_log import CommitLog
from cometmq.store.log.seek import NEVER
from cometmq.store.log.seek import offset_by_time as find_offset
from cometmq.store.log.seek import store_time_at as find_store_time
from cometmq.store.queue.consume_queue import ConsumeQueue
from cometmq.store.queue.queues import Queues
from cometmq.store.reading import run
from cometmq.testing.memory_disk import MemoryDisk

V6 = pack_host("::1", 10911)
LOST = None
Times = list[int | None]


def offset_by_time(log: CommitLog, queue: ConsumeQueue, time: int, *, upper: bool) -> int:
    return run(find_offset(log, queue, time, upper=upper))


def store_time_at(log: CommitLog, queue: ConsumeQueue, queue_offset: int) -> int:
    return run(find_store_time(log, queue, queue_offset))


def shelf(times: Times, host: bytes = V6) -> tuple[CommitLog, ConsumeQueue]:
    """A log and a queue with messages stored at these times; None stands for a lost one."""
    files = OpenFiles(MemoryDisk(), writable=True)
    log = CommitLog(files, LogSpread((layout.commitlog_dir(ROOT),)), 4_096)
    queue = Queues(files, ROOT, 10 * SIZE).find_or_create("Orders", 0)
    for number, time in enumerate(times):
        if time is LOST:
            queue.put(number, *FILLER)
            continue
        (at,) = log.append([new_message()._replace(born_host=host)], [number], time)
        queue.put(number, at.physical_offset, at.size, 0)
        if number % 7 == 0:
            queue.write_back()
    queue.correct_min_offset(log.min_offset)
    return log, queue


def rising(times: Times) -> Times:
    """The same, with the times in order and the lost ones where they are."""
    ordered = iter(sorted(time for time in times if time is not LOST))
    return [LOST if time is LOST else next(ordered) for time in times]


@given(
    times=st.lists(st.integers(0, 30) | st.none(), max_size=60).map(rising),
    time=st.integers(-1, 31),
)
def test_finds_what_going_through_all_messages_finds(times: Times, time: int) -> None:
    log, queue = shelf(times)
    there = [(number, at) for number, at in enumerate(times) if at is not LOST]
    at_or_after = [number for number, at in there if at >= time]
    at_or_before = [number for number, at in there if at <= time]
    assert offset_by_time(log, queue, time, upper=False) == (at_or_after or [queue.max_offset])[0]
    assert offset_by_time(log, queue, time, upper=True) == (at_or_before or [queue.min_offset])[-1]


def test_equal_times_give_the_first_and_the_last_of_them() -> None:
    log, queue = shelf([10, 20, 20, 20, 30])
    assert offset_by_time(log, queue, 20, upper=False) == 1
    assert offset_by_time(log, queue, 20, upper=True) == 3


def test_messages_that_have_expired_are_not_found() -> None:
    log, queue = shelf([10, 20, 30, 40])
    queue.correct_min_offset(queue.entry(2).physical_offset)
    assert offset_by_time(log, queue, 0, upper=False) == 2
    assert offset_by_time(log, queue, 0, upper=True) == 2
    assert store_time_at(log, queue, 1) == NEVER


@given(st.lists(st.integers(0, 30), min_size=1, max_size=40), st.integers(-1, 31))
def test_a_clock_that_went_back_gives_an_offset_of_the_queue(times: list[int], time: int) -> None:
    log, queue = shelf(list(times))
    for upper in (False, True):
        assert 0 <= offset_by_time(log, queue, time, upper=upper) <= len(times)


def test_a_store_time_is_read_behind_hosts_of_either_size() -> None:
    for host in (V6, pack_host("127.0.0.1", 10911)):
        log, queue = shelf([10, 20, 30], host)
        assert [store_time_at(log, queue, number) for number in range(-1, 4)] == [NEVER, 10, 20, 30, NEVER]


def test_messages_whose_file_is_gone_are_not_found_before_the_queue_is_told() -> None:
    log, queue = shelf(list(range(10, 110)))
    assert log.chain.detach_before(log.chain.starts[1])
    alive = next(n for n in range(100) if queue.entry(n).physical_offset >= log.min_offset)
    assert queue.min_offset == 0 < alive
    for upper in (False, True):
        assert offset_by_time(log, queue, 0, upper=upper) == alive
        assert offset_by_time(log, queue, 10 + alive + 5, upper=upper) == alive + 5
    assert offset_by_time(log, queue, 1_000, upper=False) == 100
    assert offset_by_time(log, queue, 1_000, upper=True) == 99
