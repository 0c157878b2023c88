import numpy as np
import pytest

from cometmq.kernels.sends.send_topics import CELLS_AT, QUEUE_COUNT, SendTopics


def put(table: SendTopics[str], topic: str, queue_count: int, queue_id: int, number: int) -> None:
    table.put_topic(topic, topic.upper(), queue_count)
    table.put_queue(topic, queue_id, number)


@pytest.mark.parametrize("count", [1, 32, 33, 500])
def test_every_topic_is_found_with_its_queues(count: int) -> None:
    table = SendTopics[str]()
    topics = [f"topic-{number}" * (1 + number % 9) for number in range(count)]
    for number, topic in enumerate(topics):
        put(table, topic, 4, 1, number)
    for number, topic in enumerate(topics):
        assert queues(table, topic) == [-1, number, -1, -1]
        assert table.find(topic) == topic.upper()
        assert table.queues[topic] == {1: number}
    assert table.find("another") is None
    assert "another" not in table.queues


def test_a_queue_that_is_put_again_has_its_new_number() -> None:
    table = SendTopics[str]()
    put(table, "T", 2, 0, 7)
    put(table, "T", 2, 1, 8)
    put(table, "T", 2, 0, 9)
    assert len(table) == 1
    assert table.cells[:3].tolist() == [9, 8, -1]


def test_what_is_cleared_is_gone() -> None:
    table = SendTopics[str]()
    put(table, "T", 2, 0, 7)
    table.clear()
    assert table.find("T") is None and len(table) == 0 and np.all(table.cells == -1)


def queues(table: SendTopics[str], topic: str) -> list[int]:
    """The numbers of a topic's queues."""
    row = table.rows[table.numbers[topic.encode()]]
    begin, count = int(row[CELLS_AT]), int(row[QUEUE_COUNT])
    return [int(number) for number in table.cells[begin : begin + count]]


def test_a_topic_that_is_forgotten_has_no_queues_and_the_others_keep_theirs() -> None:
    table = SendTopics[str]()
    put(table, "A", 2, 0, 7)
    put(table, "B", 2, 1, 8)
    table.forget("A")
    table.forget("unknown")
    assert (queues(table, "A"), queues(table, "B")) == ([], [-1, 8])
    assert (table.find("A"), table.find("B"), table.queues["A"]) == (None, "B", {})


@pytest.mark.parametrize("queue_count", [1, 2, 5])
def test_a_topic_that_comes_again_begins_anew(queue_count: int) -> None:
    table = SendTopics[str]()
    put(table, "A", 2, 0, 7)
    put(table, "A", 2, 1, 8)
    put(table, "B", 2, 1, 9)
    table.forget("A")
    put(table, "A", queue_count, 0, 10)
    assert queues(table, "A") == [10] + (queue_count - 1) * [-1]
    assert queues(table, "B") == [-1, 9]


def test_a_topic_that_changes_again_and_again_takes_no_more_room() -> None:
    table = SendTopics[str]()
    for number in range(10_000):
        put(table, "A", 8 - number % 2, 0, number)
        table.forget("A")
    assert len(table.cells) == 1024
