import pytest
from tests.kernels.sending import ADDED, USUAL, Reader, binary_frame, json_frame

from cometmq.format.host import pack_host
from cometmq.format.record import END_FILE_MIN_BLANK, decode_many, encode_fields
from cometmq.kernels.ops import Ops

V4, V6 = pack_host("127.0.0.1", 10911), pack_host("2001:db8::7", 10911)
BASE = (1 << 40) + 7
TIME = 1_795_255_006_748


@pytest.mark.parametrize(("born", "store"), [(V4, V4), (V6, V4), (V4, V6), (V6, V6)])
def test_records_are_those_of_the_format(ops: Ops, born: bytes, store: bytes) -> None:
    reader = Reader(ops, born_host=born, store_host=store)
    bodies = [b"x", b"body" * 40, bytes(range(256))]
    data = b"".join(json_frame({"f": "49", "g": "-3", "j": "2"}, body) for body in bodies)
    reader.read(data, physical_offset=BASE, time=TIME)
    expected, offset = b"", BASE
    for number, body in enumerate(bodies):
        texts = USUAL["i"].encode() + ADDED
        expected += encode_fields("T", body, texts, 1, 10 + number, offset, 7, 49, -3, born, TIME, store, 2)
        size = BASE + len(expected) - offset
        assert reader.entries[number, :4].tolist() == [1, 10 + number, offset, size]
        offset += size
    assert reader.batch.records == expected
    assert reader.next_offsets.tolist() == [0, 13, 20, 30]


def test_what_does_not_fit_with_a_blank_behind_it_is_left(ops: Ops) -> None:
    reader, frame = Reader(ops), binary_frame()
    reader.read(frame * 3)
    whole = len(reader.batch.records)
    for room, count in [(whole + END_FILE_MIN_BLANK, 3), (whole + END_FILE_MIN_BLANK - 1, 2), (0, 0)]:
        reader = Reader(ops)
        ends = reader.read(frame * 3, room=room)
        assert ends == (count * len(frame), min(count + 1, 3) * len(frame))
        assert len(list(decode_many(bytes(reader.batch.records)))) == reader.batch.message_count == count
        assert reader.next_offsets[1] == 10 + count
