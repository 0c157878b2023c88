import pytest
from tests.kernels.sending import ADDED, USUAL, Reader, binary_frame, json_frame

from cometmq.format.host import pack_host
from cometmq.format.record import END_FILE_MIN_BLANK, decode_many, encode_fields
from cometmq.kernels.ops import Ops
from cometmq.kernels.sends import hosts_of

V4, V6 = pack_host("127.0.0.1", 10911), pack_host("2001:db8::7", 10911)
BASE = (1 << 40) + 7
TIME = 1_795_255_006_748


def records_of(reader: Reader, room: int, born: bytes = V4, store: bytes = V4) -> bytes:
    return bytes(reader.batch.encode(hosts_of(born, store), reader.next_offsets, BASE, room, TIME))


@pytest.mark.parametrize(("born", "store"), [(V4, V4), (V6, V4), (V4, V6), (V6, V6)])
def test_records_are_those_of_the_format(compiled: Ops, born: bytes, store: bytes) -> None:
    reader = Reader(compiled)
    bodies = [b"x", b"body" * 40, bytes(range(256))]
    reader.read(b"".join(json_frame({"f": "49", "g": "-3", "j": "2"}, body) for body in bodies))
    data = records_of(reader, 1 << 20, born, store)
    expected, offset = b"", BASE
    for number, body in enumerate(bodies):
        texts = USUAL["i"].encode() + ADDED
        expected += encode_fields("T", body, texts, 1, 10 + number, offset, 7, 49, -3, born, TIME, store, 2)
        send = reader.send(number)
        assert (send["queue_offset"], send["physical_offset"]) == (10 + number, offset)
        offset = BASE + len(expected)
        assert send["size"] == offset - send["physical_offset"]
    assert data == expected
    assert reader.next_offsets.tolist() == [0, 13, 20, 30]


def test_what_does_not_fit_with_a_blank_behind_it_is_left(compiled: Ops) -> None:
    reader = Reader(compiled)
    reader.read(binary_frame() * 3)
    whole = len(records_of(reader, 1 << 20))
    for room, count in [(whole + END_FILE_MIN_BLANK, 3), (whole + END_FILE_MIN_BLANK - 1, 2), (0, 0)]:
        reader = Reader(compiled)
        reader.read(binary_frame() * 3)
        assert len(list(decode_many(records_of(reader, room)))) == reader.batch.count == count
        assert reader.next_offsets[1] == 10 + count
