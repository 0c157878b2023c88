from itertools import accumulate

import numpy as np
import pytest
from tests.kernels.sending import Reader, binary_frame, json_frame

from cometmq.kernels.ops import Ops
from cometmq.kernels.sends import Answers
from cometmq.wire.frame import Command, SerializeType
from cometmq.wire.template import ResponseTemplate

TEMPLATE = ResponseTemplate(
    ("msgId", "queueId", "queueOffset", "transactionId"), {"MSG_REGION": "50 %", "TRACE_ON": "true"}
)
HOST = "7F00000100002A9F"


@pytest.mark.parametrize("queue_offset", [0, 9, 10, 12345678901, 2**62])
@pytest.mark.parametrize("opaque", [0, 1, -1, 2**31 - 1, -(2**31)])
def test_answers_are_those_of_the_template(compiled: Ops, queue_offset: int, opaque: int) -> None:
    reader = Reader(compiled)
    pieces = TEMPLATE.pieces()
    reader.batch._answers = Answers(
        np.frombuffer(b"".join(pieces), np.uint8),
        np.array([0, *accumulate(map(len, pieces))]),
        np.frombuffer(HOST.encode(), np.uint8),
    )
    reader.read(json_frame() + binary_frame() + json_frame(flag=2) + binary_frame(flag=2))
    sends = reader.batch.sends[:4]
    sends["queue_offset"], sends["physical_offset"], sends["opaque"] = queue_offset, 0xABCDEF, opaque
    values = (f"{HOST}{0xABCDEF:016X}", "1", str(queue_offset), "abc")
    expected = [
        TEMPLATE.encode(Command(310, opaque, serialize_type=serialize_type), values)
        for serialize_type in (SerializeType.JSON, SerializeType.ROCKETMQ)
    ]
    assert reader.batch.answers() == b"".join(expected)
