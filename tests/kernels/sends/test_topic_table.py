import numpy as np
import pytest

from cometmq.format.java.java_hash import java_hash
from cometmq.kernels.sends.topic_table import (
    CELLS_AT,
    NAME_AT,
    NAME_LENGTH,
    QUEUE_COUNT,
    ROW_SIZE,
    TopicHashTable,
    slot_of,
)


def find(table: TopicHashTable, topic: str) -> int | None:
    """Find a topic's row as a kernel does."""
    slot = slot_of(java_hash(topic), len(table.slots))
    while (row := int(table.slots[slot])) >= 0:
        at, length = (int(table.rows[row * ROW_SIZE + part]) for part in (NAME_AT, NAME_LENGTH))
        if bytes(table.names[at : at + length]) == topic.encode():
            return row
        slot = (slot + 1) % len(table.slots)
    return None


@pytest.mark.parametrize("count", [1, 32, 33, 500])
def test_every_topic_is_found_with_its_queues(count: int) -> None:
    table = TopicHashTable()
    topics = [f"topic-{number}" * (1 + number % 9) for number in range(count)]
    for number, topic in enumerate(topics):
        table.put(topic, 4, 1, number)
    for number, topic in enumerate(topics):
        row = find(table, topic)
        assert row is not None
        cells = int(table.rows[row * ROW_SIZE + CELLS_AT])
        assert table.rows[row * ROW_SIZE + QUEUE_COUNT] == 4
        assert table.cells[cells : cells + 4].tolist() == [-1, number, -1, -1]
    assert find(table, "another") is None


def test_a_queue_that_is_put_again_has_its_new_number() -> None:
    table = TopicHashTable()
    table.put("T", 2, 0, 7)
    table.put("T", 2, 1, 8)
    table.put("T", 2, 0, 9)
    assert table.count == 1
    assert table.cells[:3].tolist() == [9, 8, -1]


def test_what_is_cleared_is_gone() -> None:
    table = TopicHashTable()
    table.put("T", 2, 0, 7)
    table.clear()
    assert find(table, "T") is None
    assert table.count == 0 and np.all(table.cells == -1)


def queues(table: TopicHashTable, topic: str) -> list[int]:
    """The numbers of a topic's queues."""
    row = find(table, topic)
    assert row is not None
    begin, count = (int(table.rows[row * ROW_SIZE + part]) for part in (CELLS_AT, QUEUE_COUNT))
    return [int(number) for number in table.cells[begin : begin + count]]


def test_a_topic_that_is_forgotten_has_no_queues_and_the_others_keep_theirs() -> None:
    table = TopicHashTable()
    table.put("A", 2, 0, 7)
    table.put("B", 2, 1, 8)
    table.forget("A")
    table.forget("unknown")
    assert (queues(table, "A"), queues(table, "B")) == ([], [-1, 8])


@pytest.mark.parametrize("queue_count", [1, 2, 5])
def test_a_topic_that_comes_again_begins_anew(queue_count: int) -> None:
    table = TopicHashTable()
    table.put("A", 2, 0, 7)
    table.put("A", 2, 1, 8)
    table.put("B", 2, 1, 9)
    table.forget("A")
    table.put("A", queue_count, 0, 10)
    assert queues(table, "A") == [10] + (queue_count - 1) * [-1]
    assert queues(table, "B") == [-1, 9]


def test_a_topic_that_changes_again_and_again_takes_no_more_room() -> None:
    table = TopicHashTable()
    for number in range(10_000):
        table.put("A", 8 - number % 2, 0, number)
        table.forget("A")
    assert len(table.cells) == 1024
