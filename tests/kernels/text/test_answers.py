"""The bytes of answers, here those of pulls: what the template gives, and the records behind it."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.chosen_records import BEGIN, file_of

from cometmq.format.queue_entry import pack
from cometmq.kernels.pulls.rows import (
    ANSWER_END,
    ASK_SIZE,
    CHOSEN_SIZE,
    COUNT,
    MAX_OFFSET,
    NEXT_OFFSET,
    NO_CODES,
    OUTCOME,
    AnswerRoom,
    AnswerStop,
    Asks,
    LogBytes,
    PullOps,
    ReadOutcome,
    constants_of,
)
from cometmq.wire.frame import Command, SerializeType, decode
from cometmq.wire.template import NumbersTemplate

TEMPLATE = NumbersTemplate("FOUND", ("suggestWhichBrokerId", "nextBeginOffset", "minOffset", "maxOffset"))
opaques = st.integers(-(2**31), 2**31 - 1)


@given(st.lists(st.tuples(opaques, st.sampled_from(SerializeType), st.integers(1, 5)), max_size=5))
def test_answers_are_those_of_the_template(
    pull_ops: PullOps, asked: list[tuple[int, SerializeType, int]]
) -> None:
    data, entries = file_of(5)
    packed = b"".join(pack(*entry) for entry in entries)
    rows = np.zeros((len(asked), ASK_SIZE), np.int64)
    for n, (opaque, kind, count) in enumerate(asked):
        rows[n, :8] = opaque, kind, 0, count, 1 << 20, 0, NO_CODES, (n + 1) * len(packed)
        rows[n, MAX_OFFSET] = 7
    all_entries = np.frombuffer(packed * len(asked) or b"\0", np.uint8)
    asks = Asks(rows, all_entries, np.zeros(3, np.int64))
    asks.asked, asks.entries_end = len(asked), len(packed) * len(asked)
    file = LogBytes(np.frombuffer(data, np.uint8), np.ones(1, np.uint8), BEGIN, BEGIN + len(data))
    limits = np.array((file.begin, file.end, 0, 5, 1 << 20, 5, 1 << 20), np.int64)
    chosen = np.empty((5, CHOSEN_SIZE), np.int64)
    room = AnswerRoom(np.empty(1 << 16, np.uint8), chosen, limits, constants_of(TEMPLATE))
    done, end, stop, _ = pull_ops.answer(asks, room, file, 0, 0)
    assert (done, stop) == (len(asked), AnswerStop.DONE)
    assert set(rows[:, OUTCOME].tolist()) <= {ReadOutcome.FOUND}
    assert rows[:, COUNT].tolist() == rows[:, NEXT_OFFSET].tolist() == [count for *_, count in asked]
    size = len(data) // 5
    frames = [
        TEMPLATE.encode(Command(11, opaque, serialize_type=kind), (0, count, 0, 7), count * size)
        + data[: count * size]
        for opaque, kind, count in asked
    ]
    assert room.data[:end].tobytes() == b"".join(frames)
    assert rows[:, ANSWER_END].tolist() == np.cumsum([len(frame) for frame in frames], dtype=int).tolist()
    assert all(decode(frame).remark == "FOUND" for frame in frames)
