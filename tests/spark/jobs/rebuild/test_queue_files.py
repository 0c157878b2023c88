"""ConsumeQueue files, without Spark."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cometmq.format.queue_entry import SIZE
from cometmq.io.files import Disk
from cometmq.spark.jobs.rebuild import queue_files
from cometmq.spark.jobs.rebuild.entries import QUEUE_ROW
from cometmq.spark.jobs.rebuild.queue_files import QueuePart, load_gaps, write_queues
from cometmq.store.recovery.replay import Gap

FILE_SIZE = 10 * SIZE


def part(topic: str, queue_id: int, first: int, count: int, begin: int = 0) -> QueuePart:
    """Entries of consecutive messages, 1,000 bytes each, from a CommitLog offset on."""
    rows = np.zeros(count, QUEUE_ROW)
    rows["queue_offset"] = np.arange(first, first + count)
    rows["entry"]["physical_offset"] = begin + np.arange(count) * 1_000
    rows["entry"]["size"] = 1_000
    return QueuePart((topic, queue_id), rows.tobytes())


def lengths(building: Path) -> dict[str, int]:
    """How many entries each file has."""
    root = building / "consumequeue"
    return {
        path.relative_to(root).as_posix(): sum(
            path.read_bytes()[at : at + SIZE] != bytes(SIZE) for at in range(0, FILE_SIZE, SIZE)
        )
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def test_each_queue_gets_its_files(tmp_path: Path) -> None:
    parts = [part("A", 0, 0, 8), part("A", 0, 8, 5, 50_000), part("A", 1, 0, 1), part("B", 0, 25, 2, 90_000)]
    assert list(write_queues(parts, tmp_path, FILE_SIZE, {})) == [("A", 0), ("A", 1), ("B", 0)]
    assert lengths(tmp_path) == {
        f"A/0/{0:020d}": 10,
        f"A/0/{FILE_SIZE:020d}": 3,
        f"A/1/{0:020d}": 1,
        f"B/0/{2 * FILE_SIZE:020d}": 7,  # fillers, then the two
    }
    assert list((tmp_path / "attempts").iterdir()) == []
    assert load_gaps(Disk(), tmp_path) == []


def test_messages_that_are_lost_are_told_once_though_two_attempts_find_them(tmp_path: Path) -> None:
    parts = [part("A", 0, 0, 2), part("A", 0, 4, 3, 50_000)]
    for _ in range(2):
        assert list(write_queues(parts, tmp_path, FILE_SIZE, {})) == [("A", 0)]
    assert load_gaps(Disk(), tmp_path) == [Gap("A", 0, 2, 2)]
    assert lengths(tmp_path) == {f"A/0/{0:020d}": 7}


def test_what_belongs_to_a_deleted_topic_does_not_come_back(tmp_path: Path) -> None:
    parts = [part("A", 0, 0, 3), part("A", 0, 0, 1, 50_000), part("B", 0, 0, 2)]
    assert list(write_queues(parts, tmp_path, FILE_SIZE, {"A": 50_000, "B": 50_000})) == [("A", 0)]
    assert lengths(tmp_path) == {f"A/0/{0:020d}": 1}


def test_a_queue_that_cannot_be_a_directory_is_left_out(tmp_path: Path) -> None:
    parts = [part("..", 0, 0, 3), part("A", -1, 0, 1), part("A", 2, 0, 1)]
    assert list(write_queues(parts, tmp_path, FILE_SIZE, {})) == [("A", 2)]


def test_a_task_that_dies_leaves_whole_queues_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_files, "TOGETHER", 1)

    def dying() -> Iterator[QueuePart]:
        yield from (part("A", 0, 0, 3), part("A", 1, 0, 3))
        raise ConnectionError

    with pytest.raises(ConnectionError):
        list(write_queues(dying(), tmp_path, FILE_SIZE, {}))
    assert lengths(tmp_path) == {f"A/0/{0:020d}": 3}
    assert list((tmp_path / "attempts").iterdir()) == []
