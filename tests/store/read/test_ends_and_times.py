"""The ends of queues and the times of their newest messages, which are read from the log once."""

import pytest
from tests.store.conftest import ROOT, new_message

from cometmq.format import layout
from cometmq.format.queue_entry import FILLER, SIZE
from cometmq.io.open_files import OpenFiles
from cometmq.store.files.spread import LogSpread
from cometmq.store.log.commit_log import CommitLog
from cometmq.store.log.seek import store_time_at
from cometmq.store.queue.consume_queue import ConsumeQueue
from cometmq.store.queue.queues import Queues
from cometmq.store.read import ends_and_times
from cometmq.store.read.ends_and_times import EndsAndTimes
from cometmq.store.reading import Reading, run
from cometmq.testing.memory_disk import MemoryDisk


class Shelf:
    """A log, some queues, and what is read of the log for times."""

    def __init__(self) -> None:
        files = OpenFiles(MemoryDisk(), writable=True)
        self.log = CommitLog(files, LogSpread((layout.commitlog_dir(ROOT),)), 4_096)
        self.queues = Queues(files, ROOT, 10 * SIZE)
        self.read: list[tuple[int, int]] = []
        self._ends_and_times = EndsAndTimes(self.log, self.queues)

    @property
    def kept(self) -> int:
        """How many times are kept."""
        return len(self._ends_and_times._kept)

    def append(self, queue_id: int, time: int) -> ConsumeQueue:
        queue = self.queues.find_or_create("Orders", queue_id)
        (at,) = self.log.append([new_message()], [queue.max_offset], time)
        queue.put(queue.max_offset, at.physical_offset, at.size, 0)
        queue.correct_min_offset(self.log.min_offset)
        return queue

    def ends_and_times(self, queue_ids: range) -> list[tuple[int, int, int]]:
        return run(self._ends_and_times.of("Orders", queue_ids))


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> Shelf:
    made = Shelf()

    def read(log: CommitLog, queue: ConsumeQueue, queue_offset: int) -> Reading[int]:
        made.read.append((queue.queue_id, queue_offset))
        return store_time_at(log, queue, queue_offset)

    monkeypatch.setattr(ends_and_times, "store_time_at", read)
    return made


def test_each_queue_is_told_with_the_time_of_its_newest_message(shelf: Shelf) -> None:
    for time in (5, 7):
        shelf.append(1, time)
    shelf.append(3, 9)
    assert shelf.ends_and_times(range(4)) == [(0, 0, 0), (0, 2, 7), (0, 0, 0), (0, 1, 9)]
    assert shelf.ends_and_times(range(3, 5)) == [(0, 1, 9), (0, 0, 0)]


def test_a_time_is_read_once_for_each_newest_message(shelf: Shelf) -> None:
    for time in (5, 7):
        shelf.append(0, time)
    assert shelf.ends_and_times(range(1)) == shelf.ends_and_times(range(1)) == [(0, 2, 7)]
    assert shelf.read == [(0, 1)]
    shelf.append(0, 8)
    assert shelf.ends_and_times(range(1)) == [(0, 3, 8)]
    assert shelf.read == [(0, 1), (0, 2)]


def test_a_queue_that_is_made_anew_has_its_own_time(shelf: Shelf) -> None:
    shelf.append(0, 5)
    assert shelf.ends_and_times(range(1)) == [(0, 1, 5)]
    shelf.queues.find_or_create("Orders", 0).clear()
    assert shelf.ends_and_times(range(1)) == [(0, 0, 0)]
    shelf.append(0, 6)
    assert shelf.ends_and_times(range(1)) == [(0, 1, 6)]


def test_the_times_of_deleted_queues_are_not_kept(shelf: Shelf) -> None:
    for queue_id in range(3):
        shelf.append(queue_id, 5)
    shelf.ends_and_times(range(3))
    assert shelf.kept == 3
    shelf.queues.delete("Orders")
    shelf.append(1, 6)
    assert shelf.ends_and_times(range(3)) == [(0, 0, 0), (0, 1, 6), (0, 0, 0)]
    assert shelf.kept == 1


def test_a_newest_message_that_is_lost_has_no_time(shelf: Shelf) -> None:
    queue = shelf.append(0, 5)
    assert shelf.ends_and_times(range(1)) == [(0, 1, 5)]
    queue.put(1, *FILLER)
    assert shelf.ends_and_times(range(1)) == [(0, 2, 0)]
