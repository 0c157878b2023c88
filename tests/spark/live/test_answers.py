import numpy as np
import pytest

from cometmq import kernels
from cometmq.format.host import pack_host
from cometmq.format.record import Record, encode
from cometmq.kernels import plain
from cometmq.message import MessageQueue
from cometmq.spark.live.answers import Answers, RowFilter
from cometmq.spark.live.pulls import PulledPiece
from cometmq.spark.live.ranges import QueueRange

FIRST, SECOND = (MessageQueue("orders", "b", number) for number in range(2))


def record(queue: MessageQueue, offset: int, tags: bytes = b"paid", store_time: int = 1) -> bytes:
    return encode(
        Record(
            topic=queue.topic,
            body=b"body %d" % offset,
            properties=b"TAGS\1" + tags + b"\2",
            queue_id=queue.queue_id,
            queue_offset=offset,
            physical_offset=1_000_000 - 999 * offset,
            flag=0,
            sys_flag=0,
            born_time=1,
            born_host=pack_host("127.0.0.1", 1),
            store_time=store_time,
            store_host=pack_host("127.0.0.1", 2),
        )
    )


def piece(queue: MessageQueue, start: int, end: int, *bodies: bytes) -> PulledPiece:
    return PulledPiece(QueueRange(queue, start, end), list(bodies), [])


def found(answers: Answers) -> list[tuple[int, int]]:
    return [
        (int(scan.queue_id[row]), int(scan.queue_offset[row]))
        for scan, rows in answers.scans()
        for row in rows
    ]


def test_records_of_any_places_are_found_and_those_behind_their_range_left_out() -> None:
    pieces = [
        piece(FIRST, 3, 5, record(FIRST, 3), record(FIRST, 4) + record(FIRST, 5)),
        piece(SECOND, 7, 8, record(SECOND, 7)),
        piece(SECOND, 8, 8),
    ]
    answers = Answers(plain, pieces)
    assert found(answers) == [(0, 3), (0, 4), (1, 7)]
    assert answers.missing() == []


def test_each_row_has_the_broker_that_was_asked() -> None:
    there = MessageQueue("orders", "c", 0)
    pieces = [piece(FIRST, 3, 4, record(FIRST, 3)), piece(there, 5, 7, record(there, 5), record(there, 6))]
    answers = Answers(plain, pieces)
    ((scan, rows),) = answers.scans()
    batch = answers.batch(scan, rows[1:], ("broker", "queue_offset"))
    assert batch.to_pylist() == [{"broker": "c", "queue_offset": 5}, {"broker": "c", "queue_offset": 6}]
    assert answers.batch(scan, rows, ("broker",)).column(0).to_pylist() == ["b", "c", "c"]
    assert answers.batch(scan, rows, ("queue_id",)).schema.names == ["queue_id"]


def test_holes_are_named() -> None:
    pieces = [piece(FIRST, 0, 6, record(FIRST, 1) + record(FIRST, 4)), piece(SECOND, 0, 2)]
    answers = Answers(plain, pieces)
    found(answers)
    assert answers.missing() == [
        QueueRange(FIRST, 0, 1),
        QueueRange(FIRST, 2, 4),
        QueueRange(FIRST, 5, 6),
        QueueRange(SECOND, 0, 2),
    ]


def test_a_damaged_record_is_passed_over_and_missing(caplog: pytest.LogCaptureFixture) -> None:
    damaged = bytearray(record(FIRST, 1))
    damaged[90] ^= 1
    pieces = [
        piece(FIRST, 0, 3, record(FIRST, 0) + bytes(damaged) + record(FIRST, 2)),
        piece(SECOND, 0, 1, b"nonsense"),
        piece(SECOND, 1, 2, record(SECOND, 1)),
    ]
    answers = Answers(plain, pieces)
    assert found(answers) == [(0, 0), (0, 2), (1, 1)]
    assert answers.missing() == [QueueRange(FIRST, 1, 2), QueueRange(SECOND, 0, 1)]
    assert caplog.text.count("a record in a broker's answer is damaged") == 2


def test_tags_and_times_choose_records() -> None:
    data = [
        record(FIRST, 0),
        record(FIRST, 1, b"new"),
        record(FIRST, 2, b"paid", 9),
        record(FIRST, 3, b"paid", 5),
    ]
    answers = Answers(kernels.load(), [piece(FIRST, 0, 4, *data)])
    ((scan, rows),) = answers.scans()
    assert answers.choose(scan, rows, RowFilter()).tolist() == [0, 1, 2, 3]
    assert answers.choose(scan, rows, RowFilter(frozenset({"paid", "x"}))).tolist() == [0, 2, 3]
    assert answers.choose(scan, rows, RowFilter(None, 5, 9)).tolist() == [3]
    assert answers.choose(scan, rows, RowFilter(None, 0, None)).tolist() == [0, 1, 2, 3]
    assert answers.choose(scan, np.array([1]), RowFilter(frozenset({"paid"}))).tolist() == []
