from pathlib import Path

import numpy as np
import pytest

from cometmq.format.queue_entry import SIZE, QueueEntry, unpack
from cometmq.io.open_files import OpenFiles
from cometmq.store import staged
from cometmq.store.queues import Queues
from cometmq.testing.memory_disk import MemoryDisk


@pytest.fixture
def queues() -> Queues:
    return Queues(OpenFiles(MemoryDisk(), writable=True), Path("/disk/store"), 20 * 100)


def rows(*entries: tuple[int, int, int]) -> "np.ndarray[tuple[int, int], np.dtype[np.int64]]":
    """Make rows of (queue, queue offset, physical offset)."""
    return np.array([(queue, at, offset, 100, -queue) for queue, at, offset in entries], np.int64)


def add(queues: Queues, entries: "np.ndarray[tuple[int, int], np.dtype[np.int64]]") -> None:
    fill(queues, entries)
    queues.staged.count += len(entries)


def fill(queues: Queues, entries: "np.ndarray[tuple[int, int], np.dtype[np.int64]]") -> None:
    """Take in entries that may not be read yet."""
    staged = queues.staged
    staged.with_room(len(entries))[staged.end : staged.end + len(entries)] = entries
    staged.end += len(entries)


@pytest.mark.parametrize("few", [0, staged.FEW])
def test_entries_are_in_their_queues_when_somebody_asks(
    queues: Queues, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(staged, "FEW", few)
    a, b = queues.get("T", 0).number, queues.get("T", 1).number
    add(queues, rows((a, 0, 0), (b, 0, 100), (a, 1, 200)))
    add(queues, rows((b, 1, 300)))
    assert queues.staged.count == 4
    queue = queues.find("T", 0)
    assert queue is not None and queues.staged.count == 0
    assert [unpack(queue.read(0, 9), at * SIZE) for at in range(2)] == [
        QueueEntry(0, 100, -a),
        QueueEntry(200, 100, -a),
    ]
    assert (queue.max_offset, queue.physical_end) == (2, 300)
    other = queues.get("T", 1)
    assert (other.max_offset, other.physical_end, len(other.read(0, 9))) == (2, 400, 2 * SIZE)


def test_no_more_wait_than_there_is_room_for(queues: Queues, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged, "CAPACITY", 10)
    queue, most = queues.get("T", 0), staged.PLACES_MIN * staged.RUN_MAX
    for at in range(0, most + 10, 10):
        add(queues, rows(*((queue.number, at + i, 100 * (at + i)) for i in range(10))))
    assert (queue.max_offset, queues.staged.grouped, queues.staged.count) == (0, staged.PLACES_MIN, 10)
    add(queues, rows(*((queue.number, at, 100 * at) for at in range(most + 10, 2 * most))))
    assert (queue.max_offset, queues.staged.grouped) == (most // 2, staged.PLACES_MIN // 2 + 1)
    assert [len(found.read(0, 3 * most)) // SIZE for found in queues] == [2 * most]


def test_each_of_many_queues_has_a_place(queues: Queues, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = [queues.get("T", queue_id).number for queue_id in range(3 * staged.PLACES_MIN)]
    monkeypatch.setattr(staged, "CAPACITY", len(numbers))
    monkeypatch.setattr(staged, "ROOM", 4 * staged.PLACES_MIN * (most := staged.RUN_MIN + 2))
    for at in range(most + 3):
        add(queues, rows(*((number, at, 100 * at) for number in numbers)))
        if at == 0:
            queues.staged.put()  # now there is a place for each
    assert {queue.max_offset for queue in queues.by_number.values()} == {1, 1 + most}  # runs put were full
    assert {queue.max_offset for queue in queues} == {most + 3}


def test_new_queues_are_known(queues: Queues) -> None:
    for queue_id in range(100):
        number = queues.get("T", queue_id).number
        add(queues, rows(*((number, at, 100 * at) for at in range(staged.FEW + 1))))
    assert [queue.max_offset for queue in queues] == [staged.FEW + 1] * 100


@pytest.mark.parametrize("few", [0, staged.FEW])
def test_entries_of_a_queue_that_is_gone_are_passed_over(
    queues: Queues, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(staged, "FEW", few)
    kept, gone = queues.get("T", 0), queues.get("U", 0)
    queues.delete("U")
    assert gone.next_offset < 0
    add(queues, rows((gone.number, 0, 0), (kept.number, 0, 100)))
    assert [queue.max_offset for queue in queues] == [1]


def test_what_may_not_be_read_yet_waits(queues: Queues, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged, "CAPACITY", 4)
    queue = queues.get("T", 0)
    for at in range(8):
        fill(queues, rows((queue.number, at, 100 * at)))
    assert queues.find("T", 0) is queue and queue.max_offset == 0
    queues.staged.count += 3
    assert queues.find("T", 0) is queue and queue.max_offset == 3
    fill(queues, rows((queue.number, 8, 800)))
    queues.staged.count += 6
    assert queues.find("T", 0) is queue and queue.max_offset == 9
    assert [unpack(queue.read(0, 9), at * SIZE).physical_offset for at in range(9)] == list(
        range(0, 900, 100)
    )


def test_what_can_be_read_goes_before_what_waits(queues: Queues) -> None:
    queue = queues.get("T", 0)
    fill(queues, rows((queue.number, 2, 200), (queue.number, 3, 300), (queue.number, 4, 400)))
    queues.staged.add(rows((queue.number, 0, 0), (queue.number, 1, 100)))
    assert queues.find("T", 0) is queue and queue.max_offset == 2
    queues.staged.count += 3
    assert queues.find("T", 0) is queue and queue.max_offset == 5
