from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.format.queue_entry import SIZE, QueueEntry, unpack
from cometmq.io.open_files import OpenFiles
from cometmq.store.queue import staged
from cometmq.store.queue.queues import Queues
from cometmq.testing.memory_disk import MemoryDisk


@pytest.fixture
def queues() -> Queues:
    return Queues(OpenFiles(MemoryDisk(), writable=True), Path("/disk/store"), 20 * 100)


def rows(*entries: tuple[int, int, int]) -> "np.ndarray[tuple[int, int], np.dtype[np.int64]]":
    """Build rows of (queue, queue offset, physical offset)."""
    return np.array([(queue, at, offset, 100, -queue) for queue, at, offset in entries], np.int64)


def add(queues: Queues, entries: "np.ndarray[tuple[int, int], np.dtype[np.int64]]") -> None:
    fill(queues, entries)
    queues.staged.count += len(entries)


def fill(queues: Queues, entries: "np.ndarray[tuple[int, int], np.dtype[np.int64]]") -> None:
    """Add entries that may not be read yet, whose queue offsets are taken."""
    staged = queues.staged
    staged.with_room(len(entries))[staged.end : staged.end + len(entries)] = entries
    staged.end += len(entries)
    for number, queue_offset, *_ in entries.tolist():
        if number in queues.by_number:
            queues.by_number[number].next_offset = queue_offset + 1


def test_who_asks_for_the_numbers_of_queues_leaves_their_entries_staged(queues: Queues) -> None:
    a, b = queues.find_or_create("T", 0).number, queues.find_or_create("T", 7).number
    add(queues, rows((a, 0, 0), (b, 0, 100)))
    assert queues.numbers_of("T") == {0: a, 7: b} and queues.numbers_of("U") == {}
    assert queues.staged.count == 2


@pytest.mark.parametrize("few", [0, staged.FEW])
def test_entries_are_in_their_queues_when_somebody_asks(
    queues: Queues, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(staged, "FEW", few)
    a, b = queues.find_or_create("T", 0).number, queues.find_or_create("T", 1).number
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
    other = queues.find_or_create("T", 1)
    assert (other.max_offset, other.physical_end, len(other.read(0, 9))) == (2, 400, 2 * SIZE)


def test_entries_wait_while_somebody_asks_for_a_queue_that_has_none(queues: Queues) -> None:
    a, b = queues.find_or_create("T", 0), queues.find_or_create("T", 1)
    add(queues, rows((a.number, 0, 0), (a.number, 1, 100)))
    assert queues.find("T", 1) is b and queues.find_or_create("T", 1) is b and queues.find("U", 0) is None
    assert (queues.staged.count, a.max_offset) == (2, 0)
    assert queues.find("T", 0) is a and (queues.staged.count, a.max_offset) == (0, 2)


def test_who_asks_for_a_queue_has_only_its_runs_put(queues: Queues, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged, "FEW", 0)
    monkeypatch.setattr(staged, "RUNS_FEW", 0)
    a, b, other = (queues.find_or_create("T", queue_id) for queue_id in range(3))
    add(queues, rows((other.number, 0, 0)))
    queues.staged.put()  # now there are places for all
    most = staged.RUN_MAX
    add(queues, rows(*((queue.number, at, 200 * at) for at in range(most + 1) for queue in (a, b))))
    assert queues.find("T", 0) is a and (a.max_offset, b.max_offset) == (most + 1, 0)
    assert queues.staged.grouped == 4 and queues.staged.waiting() == [b]
    add(queues, rows(*((a.number, at, 200 * at) for at in range(most + 1, most + 3))))
    assert queues.find("T", 0) is a and (a.max_offset, b.max_offset) == (most + 3, 0)
    assert queues.find("T", 1) is b and b.max_offset == most + 1
    assert queues.staged.grouped == 0  # one or the other had all put
    offsets = [unpack(a.read(at, 1)).physical_offset for at in range(most + 3)]
    assert offsets == list(range(0, 200 * (most + 3), 200))


def test_few_runs_are_put_together_whoever_asks(queues: Queues, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged, "FEW", 0)
    monkeypatch.setattr(staged, "RUNS_FEW", 8)
    known = [queues.find_or_create("T", queue_id) for queue_id in range(9)]
    add(queues, rows(*((queue.number, 0, 0) for queue in known)))
    queues.staged.put()  # now there are places for all
    add(queues, rows(*((queue.number, 1, 100) for queue in known[1:])))
    assert queues.find("T", 1) is known[1]
    assert [queue.max_offset for queue in known] == [1] + [2] * 8
    add(queues, rows(*((queue.number, queue.next_offset, 200) for queue in known)))
    assert queues.find("T", 1) is known[1]
    assert [queue.max_offset for queue in known[:3]] == [1, 3, 2]


STEPS = st.lists(st.tuples(st.integers(0, 4), st.sampled_from(["add", "add", "add", "find", "put", "write"])))


@given(STEPS, st.integers(0, 3), st.integers(0, 3))
def test_each_queue_has_all_its_entries_in_order_whoever_asks_when(
    steps: list[tuple[int, str]], few: int, few_runs: int
) -> None:
    queues = Queues(OpenFiles(MemoryDisk(), writable=True), Path("/disk/store"), 20 * 100)
    known = [queues.find_or_create("T", queue_id) for queue_id in range(5)]
    log_end, expected = 0, [list[int]() for _ in known]
    with (
        mock.patch.multiple(
            staged, FEW=few, RUNS_FEW=few_runs, PLACES_MIN=8, RUN_MIN=2, RUN_MAX=3, CAPACITY=4
        ),
        mock.patch.object(queues, "staged", staged.Staged(queues.by_number)),
    ):
        for queue_id, step in steps:
            queue, offsets = known[queue_id], expected[queue_id]
            if step == "add":
                add(queues, rows((queue.number, len(offsets), log_end)))
                offsets.append(log_end)
                log_end += 100
            elif step == "find":
                assert queues.find("T", queue_id) is queue
                assert (queue.max_offset, queue.physical_end) == (
                    len(offsets),
                    offsets[-1] + 100 if offsets else 0,
                )
            elif step == "put":
                queues.staged.put()
            else:
                queues.write_back_queue(queue)
                assert queue.pending_bytes == 0
        assert {queue.queue_id for queue in queues.pending()} >= {
            queue.queue_id for queue in known if queue.max_offset < queue.next_offset
        }
        for queue, offsets in zip(queues, expected, strict=True):
            assert [unpack(queue.read(at, 1)).physical_offset for at in range(queue.max_offset)] == offsets


def test_no_more_wait_than_there_is_room_for(queues: Queues, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged, "CAPACITY", 10)
    queue, most = queues.find_or_create("T", 0), staged.PLACES_MIN * staged.RUN_MAX
    for at in range(0, most + 10, 10):
        add(queues, rows(*((queue.number, at + i, 100 * (at + i)) for i in range(10))))
    assert (queue.max_offset, queues.staged.grouped, queues.staged.count) == (0, staged.PLACES_MIN, 10)
    add(queues, rows(*((queue.number, at, 100 * at) for at in range(most + 10, 2 * most))))
    assert (queue.max_offset, queues.staged.grouped) == (most // 2, staged.PLACES_MIN // 2 + 1)
    assert [len(found.read(0, 3 * most)) // SIZE for found in queues] == [2 * most]


def test_each_of_many_queues_has_a_place(queues: Queues, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = [queues.find_or_create("T", queue_id).number for queue_id in range(3 * staged.PLACES_MIN)]
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
        number = queues.find_or_create("T", queue_id).number
        add(queues, rows(*((number, at, 100 * at) for at in range(staged.FEW + 1))))
    assert [queue.max_offset for queue in queues] == [staged.FEW + 1] * 100


@pytest.mark.parametrize("few", [0, staged.FEW])
def test_entries_of_a_queue_that_is_gone_are_passed_over(
    queues: Queues, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(staged, "FEW", few)
    kept, gone = queues.find_or_create("T", 0), queues.find_or_create("U", 0)
    queues.delete("U")
    assert gone.next_offset < 0
    add(queues, rows((gone.number, 0, 0), (kept.number, 0, 100)))
    assert [queue.max_offset for queue in queues] == [1]


def test_what_may_not_be_read_yet_waits(queues: Queues, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged, "CAPACITY", 4)
    queue = queues.find_or_create("T", 0)
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
    queue = queues.find_or_create("T", 0)
    fill(queues, rows((queue.number, 2, 200), (queue.number, 3, 300), (queue.number, 4, 400)))
    queues.staged.add(rows((queue.number, 0, 0), (queue.number, 1, 100)))
    assert queues.find("T", 0) is queue and queue.max_offset == 2
    queues.staged.count += 3
    assert queues.find("T", 0) is queue and queue.max_offset == 5
