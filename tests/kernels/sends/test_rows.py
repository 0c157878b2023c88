from itertools import pairwise

import pytest
from tests.kernels.sending import PIECES, Reader, json_frame

from cometmq.kernels.ops import Ops
from cometmq.kernels.sends import rows as sends
from cometmq.kernels.sends.rows import (
    BINARY_PIECES,
    ENTRY_SIZE,
    JSON_PIECES,
    PHYSICAL_OFFSET,
    SEND,
    constants_of,
)


def test_each_send_gets_a_row_for_its_queue_entry(compiled: Ops) -> None:
    reader = Reader(compiled)
    reader.read(json_frame({"e": "2"}, b"longer body"), physical_offset=1000)
    first = reader.send()
    reader.read_more(json_frame({"e": "3"}))
    second = reader.send()
    assert reader.entries[:3].tolist() == [
        [2, 20, 1000, first["size"], first["tags_code"]],
        [3, 30, 1000 + first["size"], second["size"], second["tags_code"]],
        [0] * 5,
    ]
    assert SEND.itemsize == 8 * len(SEND.names or ())


def test_what_could_not_be_written_gives_its_queue_offsets_back(compiled: Ops) -> None:
    reader = Reader(compiled)
    reader.read(json_frame() + json_frame({"e": "2"}) + json_frame())
    assert reader.next_offsets.tolist() == [0, 12, 21, 30]
    reader.batch.take_back()
    assert reader.next_offsets.tolist() == [0, 10, 20, 30] and reader.batch.count == 0


@pytest.mark.parametrize("limit", ["RECORDS_SIZE_MAX", "ANSWERS_SIZE_MAX"])
def test_what_there_is_no_room_for_is_taken_next(
    compiled: Ops, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(sends, limit, 2000)
    reader, frame = Reader(compiled), json_frame(body=bytes(100))
    data, position, count = frame * 20, 0, 0
    while position < len(data):
        end, others_end = reader.read(data, position)
        assert position < end == others_end
        position, count = end, count + reader.batch.count
        assert 0 < reader.batch.size <= sends.RECORDS_SIZE_MAX
    assert count == 20 and reader.next_offsets[1] == 30


def test_a_record_that_there_is_no_room_for_at_all_is_left(
    compiled: Ops, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sends, "RECORDS_SIZE_MAX", 900)
    reader = Reader(compiled)
    long = json_frame(body=bytes(1000))
    assert reader.read(long + json_frame()) == (0, len(long))
    assert reader.read(long + json_frame(), len(long))[0] == len(long + json_frame())


def test_constants_stand_one_behind_the_other() -> None:
    constants = constants_of(PIECES, b"added", bytes([10, 0, 0, 7, 0, 0, 1, 2]))
    parts = [bytes(constants.data[begin:end]) for begin, end in pairwise(constants.bounds)]
    assert parts[: sends.HOST_ID] == PIECES
    assert (parts[JSON_PIECES], parts[BINARY_PIECES]) == (PIECES[0], PIECES[6])
    assert parts[sends.HOST_ID] == b"0A00000700000102"
    assert parts[sends.ADDED] == b"added"
    assert parts[sends.STORE_HOST] == bytes([10, 0, 0, 7, 0, 0, 1, 2])


def test_a_batch_takes_more_reads_until_it_has_no_room(compiled: Ops) -> None:
    reader, frame = Reader(compiled), json_frame({"e": "2"})
    assert reader.read(json_frame(), physical_offset=500) == (len(json_frame()),) * 2
    first = reader.batch.answers()
    size = reader.send()["size"]
    assert reader.read_more(frame + json_frame(code=34)) == (len(frame), len(frame + json_frame(code=34)))
    assert reader.entries[:2, PHYSICAL_OFFSET].tolist() == [500, 500 + size]
    assert (reader.batch.count, reader.batch.size) == (2, reader.entries[:2, ENTRY_SIZE].sum())
    assert reader.batch.answers().startswith(first) and len(reader.batch.answers()) > len(first)
    assert reader.read_more(frame * sends.SENDS_MAX)[0] == (sends.SENDS_MAX - 2) * len(frame)
    assert reader.read_more(frame) == (0, 0)
    assert reader.batch.count == sends.SENDS_MAX
