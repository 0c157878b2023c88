"""The bytes of answers: those that the template gives, and the records behind them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.kernels.test_pull import BEGIN, file_of

from cometmq import kernels
from cometmq.format.queue_entry import pack
from cometmq.kernels.pulls import (
    ANSWER_END,
    ASK_SIZE,
    COUNT,
    DONE,
    MAX_OFFSET,
    NEXT_OFFSET,
    NO_CODES,
    constants_of,
)
from cometmq.wire.frame import Command, SerializeType, decode
from cometmq.wire.template import NumbersTemplate

TEMPLATE = NumbersTemplate("FOUND", ("suggestWhichBrokerId", "nextBeginOffset", "minOffset", "maxOffset"))
opaques = st.integers(-(2**31), 2**31 - 1)


@given(st.lists(st.tuples(opaques, st.sampled_from(SerializeType), st.integers(1, 5)), max_size=5))
def test_answers_are_those_of_the_template(asked: list[tuple[int, SerializeType, int]]) -> None:
    ops = kernels.load().pulls
    assert ops is not None
    data, entries = file_of(5)
    packed = b"".join(pack(*entry) for entry in entries)
    asks = np.zeros((len(asked), ASK_SIZE), np.int64)
    for n, (opaque, kind, count) in enumerate(asked):
        asks[n, :8] = opaque, kind, 0, count, 1 << 20, 0, NO_CODES, (n + 1) * len(packed)
        asks[n, MAX_OFFSET] = 7
    answers = np.empty(1 << 16, np.uint8)
    places = np.zeros((4, 5), np.int64)
    constants = constants_of(TEMPLATE.pieces())
    done, end, why = ops.answer(
        constants.data,
        constants.bounds,
        np.empty(0, np.int64),
        *(places[0], places[1], places[2], places[3]),
        answers,
        asks,
        np.frombuffer(packed * len(asked) or b"\0", np.uint8),
        *(5, 1 << 20, 5, 1 << 20, 0),
        *(np.frombuffer(data, np.uint8), np.ones(1, np.uint8), BEGIN, BEGIN + len(data)),
        *(0, len(asked), 0),
    )
    assert (done, why) == (len(asked), DONE)
    assert asks[:, COUNT].tolist() == asks[:, NEXT_OFFSET].tolist() == [count for *_, count in asked]
    size = len(data) // 5
    frames = [
        TEMPLATE.encode(Command(11, opaque, serialize_type=kind), (0, count, 0, 7), count * size)
        + data[: count * size]
        for opaque, kind, count in asked
    ]
    assert answers[:end].tobytes() == b"".join(frames)
    assert asks[:, ANSWER_END].tolist() == np.cumsum([len(frame) for frame in frames], dtype=int).tolist()
    assert all(decode(frame).remark == "FOUND" for frame in frames)
