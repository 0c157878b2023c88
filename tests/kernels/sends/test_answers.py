import pytest
from tests.kernels.sending import TEMPLATE, Reader, binary_frame, json_frame

from cometmq.kernels.ops import Ops
from cometmq.kernels.sends.rows import ENTRY_SIZE
from cometmq.wire.frame import Command, SerializeType

HOST = "7F00000100002A9F"


@pytest.mark.parametrize("queue_offset", [0, 9, 10, 12345678901, 2**62])
@pytest.mark.parametrize("opaque", [0, 1, -1, 2**31 - 1, -(2**31)])
def test_answers_are_those_of_the_template(ops: Ops, queue_offset: int, opaque: int) -> None:
    offsets, at = [queue_offset] * 4, 0xABCDEF
    reader = Reader(ops, next_offsets=offsets)
    expected = b""
    frames = [json_frame({"e": "0"}, opaque=opaque), binary_frame({"e": "1"}, opaque=opaque)]
    reader.read(b"".join(frames) + json_frame(flag=2) + binary_frame(flag=2), physical_offset=at)
    for queue_id, serialize_type in enumerate((SerializeType.JSON, SerializeType.ROCKETMQ)):
        values = (f"{HOST}{at:016X}", str(queue_id), str(queue_offset), "abc")
        expected += TEMPLATE.encode(Command(310, opaque, serialize_type=serialize_type), values)
        at += int(reader.entries[queue_id, ENTRY_SIZE])
    assert reader.batch.counts[:2] == (4, 4)
    assert reader.batch.answers() == expected
