from itertools import pairwise
from typing import Any

import pytest
from tests.kernels.sending import TEMPLATE, Reader, json_frame

from cometmq.format.java.java_hash import tags_code
from cometmq.kernels.ops import Ops
from cometmq.kernels.sends.rows import (
    ADDED,
    ENTRY_SIZE,
    HOST_ID,
    PHYSICAL_OFFSET,
    SENDS_MAX,
    STORE_HOST,
    constants_of,
)


def test_each_send_gets_a_row_for_its_queue_entry(ops: Ops) -> None:
    reader, code = Reader(ops), tags_code("TagA")
    reader.read(json_frame({"e": "2"}, b"longer body"), physical_offset=1000)
    first = len(reader.batch.records)
    reader.read_more(json_frame({"e": "3"}))
    assert reader.entries[:3].tolist() == [
        [2, 20, 1000, first, code],
        [3, 30, 1000 + first, len(reader.batch.records) - first, code],
        [0] * 5,
    ]


def test_what_could_not_be_written_gives_its_queue_offsets_back(ops: Ops) -> None:
    reader = Reader(ops)
    reader.read(json_frame() + json_frame({"e": "2"}) + json_frame())
    assert reader.next_offsets.tolist() == [0, 12, 21, 30]
    reader.batch.take_back()
    assert reader.next_offsets.tolist() == [0, 10, 20, 30] and reader.batch.message_count == 0


@pytest.mark.parametrize("limit", ["records_max", "answers_max"])
def test_what_there_is_no_room_for_is_taken_next(ops: Ops, limit: str) -> None:
    limits: dict[str, Any] = {limit: 2000}
    reader, frame = Reader(ops, **limits), json_frame(body=bytes(100))
    data, position, count = frame * 20, 0, 0
    while position < len(data):
        end, others_end = reader.read(data, position)
        assert position < end == others_end
        position, count = end, count + reader.batch.message_count
        assert 0 < len(reader.batch.records if limit == "records_max" else reader.batch.answers()) <= 2000
    assert count == 20 and reader.next_offsets[1] == 30


def test_a_record_that_there_is_no_room_for_at_all_is_left(ops: Ops) -> None:
    reader = Reader(ops, records_max=900)
    long = json_frame(body=bytes(1000))
    assert reader.read(long + json_frame()) == (0, len(long))
    assert reader.read(long + json_frame(), len(long))[0] == len(long + json_frame())


def test_constants_stand_one_behind_the_other() -> None:
    pieces, store_host = TEMPLATE.pieces(), bytes([10, 0, 0, 7, 0, 0, 1, 2])
    constants = constants_of(TEMPLATE, b"added", store_host)
    parts = [bytes(constants.data[begin:end]) for begin, end in pairwise(constants.bounds)]
    assert parts[:HOST_ID] == pieces
    assert (parts[0], parts[6]) == (pieces[0], pieces[6])
    assert parts[HOST_ID] == constants.host_id.encode() == b"0A00000700000102"
    assert parts[ADDED] == constants.added == b"added"
    assert parts[STORE_HOST] == constants.store_host == store_host


def test_a_batch_takes_more_reads_until_it_has_no_room(ops: Ops) -> None:
    reader, frame = Reader(ops), json_frame({"e": "2"})
    assert reader.read(json_frame(), physical_offset=500) == (len(json_frame()),) * 2
    first = reader.batch.answers()
    size = len(reader.batch.records)
    assert reader.read_more(frame + json_frame(code=34)) == (len(frame), len(frame + json_frame(code=34)))
    assert reader.entries[:2, PHYSICAL_OFFSET].tolist() == [500, 500 + size]
    assert (reader.batch.message_count, len(reader.batch.records)) == (
        2,
        reader.entries[:2, ENTRY_SIZE].sum(),
    )
    assert reader.batch.answers().startswith(first) and len(reader.batch.answers()) > len(first)
    assert reader.read_more(frame * SENDS_MAX)[0] == (SENDS_MAX - 2) * len(frame)
    assert reader.read_more(frame) == (0, 0)
    assert reader.batch.message_count == SENDS_MAX
