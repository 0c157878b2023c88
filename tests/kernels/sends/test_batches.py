from collections.abc import Callable

import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from tests.kernels.sending import HOST, TEMPLATE, Reader, binary_frame, json_frame

from cometmq.errors import FormatError
from cometmq.format import properties
from cometmq.format.host import pack_host
from cometmq.format.java.java_hash import tags_code
from cometmq.format.record import END_FILE_MIN_BLANK, encode_fields
from cometmq.kernels.ops import Ops
from cometmq.kernels.sends.rows import BATCH_COUNT_MAX, ENTRY_SIZE, SENDS_MAX, TAGS_CODE
from cometmq.wire import batch
from cometmq.wire.batch import BatchMessage
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command, SerializeType

CODE = int(RequestCode.SEND_BATCH_MESSAGE)
MESSAGES = [
    BatchMessage(b"one", b"UNIQ_KEY\x01a\x02", 7),
    BatchMessage(b"", b"", -7),
    BatchMessage(b"three" * 20, b"TAGS\x01x\x02TAGS\x01TagA\x02\xff\x02"),
]
messages = st.builds(
    BatchMessage,
    st.binary(max_size=9),
    st.binary(max_size=9) | st.sampled_from([b"TAGS\x01x\x02", b"TAGS\x01\xff\x02TAGS\x01\x02"]),
    st.integers(-(2**31), 2**31 - 1),
)


@pytest.mark.parametrize("frame", [json_frame, binary_frame])
@pytest.mark.parametrize("store_host", [HOST, pack_host("2001:db8::7", 10911)])
def test_a_batch_becomes_records_with_what_each_message_has_of_its_own(
    ops: Ops, frame: Callable[..., bytes], store_host: bytes
) -> None:
    reader = Reader(ops, store_host=store_host)
    data = frame({"f": "1", "h": "3", "j": "2"}, batch.encode(MESSAGES), code=CODE)
    assert reader.read(data, physical_offset=500, time=9) == (len(data), len(data))
    expected, born = b"", 1795255006748
    for number, (body, texts, flag) in enumerate(MESSAGES):
        at = 500 + len(expected)
        record = encode_fields("T", body, texts, 1, 10 + number, at, flag, 1, born, HOST, 9, store_host, 2)
        code = tags_code(properties.decode(texts).get("TAGS"))
        assert reader.entries[number].tolist() == [1, 10 + number, at, len(record), code]
        expected += record
    assert reader.batch.records == expected
    assert reader.batch.message_count == 3 and reader.next_offsets.tolist() == [0, 13, 20, 30]


@pytest.mark.parametrize(("frame", "kind"), [(json_frame, 0), (binary_frame, 1)])
def test_the_answer_names_all_messages(ops: Ops, frame: Callable[..., bytes], kind: int) -> None:
    reader = Reader(ops)
    data = frame({}, batch.encode(MESSAGES), code=CODE)
    reader.read(data + frame({}, batch.encode(MESSAGES), code=CODE, flag=2), physical_offset=500)
    offsets = [500 + int(reader.entries[:n, ENTRY_SIZE].sum()) for n in range(3)]
    ids = ",".join(f"7F00000100002A9F{offset:016X}" for offset in offsets)
    request = Command(CODE, 17, serialize_type=SerializeType(kind))
    assert reader.batch.answers() == TEMPLATE.encode(request, (ids, "1", "10", "abc"))
    assert reader.batch.message_count == 6


@pytest.mark.parametrize(("code", "batch_field"), [(CODE, "false"), (CODE, "true"), (310, "true")])
def test_the_code_or_the_field_says_that_it_is_a_batch(ops: Ops, code: int, batch_field: str) -> None:
    reader = Reader(ops)
    assert reader.takes(json_frame({"m": batch_field}, batch.encode(MESSAGES), code=code))
    assert reader.batch.message_count == 3
    assert not reader.takes(json_frame({"m": "no"}, batch.encode(MESSAGES), code=code))


@given(st.lists(messages, max_size=4), st.integers(0, 120), st.binary(max_size=3), st.integers(0, 3))
def test_whatever_can_be_decoded_is_taken(
    ops: Ops, some: list[BatchMessage], at: int, put: bytes, cut: int
) -> None:
    body = batch.encode(some)
    body = body[:at] + put + body[at + len(put) : len(body) - cut]
    try:
        expected = batch.decode(body)
    except FormatError:
        expected = []
    event(f"messages: {len(expected)}")
    reader = Reader(ops)
    assert reader.takes(json_frame({}, body, code=CODE)) == bool(expected)
    assert reader.batch.message_count == len(expected)
    codes = [tags_code(properties.decode(one.properties).get("TAGS")) for one in expected]
    assert reader.entries[: len(expected), TAGS_CODE].tolist() == codes


def test_a_batch_has_at_most_so_many_messages(ops: Ops) -> None:
    one = batch.encode([BatchMessage(b"", b"")])
    reader = Reader(ops, body_length_max=1 << 20)
    assert reader.takes(json_frame({}, one * BATCH_COUNT_MAX, code=CODE))
    assert not reader.takes(json_frame({}, one * (BATCH_COUNT_MAX + 1), code=CODE))
    assert reader.next_offsets.tolist() == [0, 10 + BATCH_COUNT_MAX, 20, 30]


def test_batches_are_taken_until_there_are_enough_messages(ops: Ops) -> None:
    each = SENDS_MAX // 2 - 1
    data = json_frame({}, batch.encode([BatchMessage(b"x", b"")] * each), code=CODE)
    reader = Reader(ops, body_length_max=1 << 20)
    assert reader.read(data * 4) == (3 * len(data),) * 2
    assert reader.batch.message_count == 3 * each


def test_a_batch_is_taken_whole_or_not_at_all(ops: Ops) -> None:
    data = json_frame({}, batch.encode(MESSAGES), code=CODE)
    reader = Reader(ops)
    reader.read(data)
    size = len(reader.batch.records)
    for room, end in ((size + END_FILE_MIN_BLANK, len(data)), (size + END_FILE_MIN_BLANK - 1, 0)):
        reader = Reader(ops)
        assert reader.read(data, room=room) == (end, len(data))
        assert reader.next_offsets[1] == (13 if end else 10)
    reader = Reader(ops, records_max=2 * size - 1)
    assert reader.read(data * 2) == (len(data), len(data))
    assert reader.read(data * 2, len(data)) == (2 * len(data), 2 * len(data))
    assert Reader(ops, records_max=size - 1).read(data) == (0, len(data))


def test_a_batch_that_could_not_be_written_gives_its_queue_offsets_back(ops: Ops) -> None:
    reader = Reader(ops)
    reader.read(json_frame() + json_frame({"e": "2"}, batch.encode(MESSAGES), code=CODE))
    assert reader.next_offsets.tolist() == [0, 11, 23, 30]
    reader.batch.take_back()
    assert reader.next_offsets.tolist() == [0, 10, 20, 30]
