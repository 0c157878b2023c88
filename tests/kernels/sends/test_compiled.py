"""The compiled operation on sends equals the plain one.

Of frames in an unusual spelling the compiled one may leave more: those become commands, to the same effect.
"""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from tests.kernels.sending import HOST, Reader, binary_frame, framed, json_frame
from tests.kit.send_frames import (
    BATCH,
    FRAMES,
    frames,
    respelled,
    spelled,
)

from cometmq.format.host import pack_host
from cometmq.format.record import END_FILE_MIN_BLANK
from cometmq.kernels import plain
from cometmq.kernels.ops import Ops
from cometmq.wire import batch

broken = st.builds(
    respelled,
    frames,
    st.sampled_from([b'"e":', b'"flag":', b'"code":310', b"{", b'"k":', b"}"]),
    st.sampled_from([b'"e"', b'"flag":0,,', b'"code":310.5', b"", b"\xff", b"}}"]),
)


def both(compiled: Ops, **options: Any) -> list[Reader]:
    return [Reader(ops, body_length_max=3000, **options) for ops in (plain, compiled)]


def came_of(reader: Reader, ends: Any) -> tuple[Any, ...]:
    """Return all that came of some sends."""
    made, count = reader.batch, reader.batch.message_count
    return (
        ends,
        (made.counts[0], count),
        bytes(made.records),
        made.answers(),
        reader.entries[:count].tolist(),
        reader.next_offsets.tolist(),
    )


written = st.tuples(frames, st.just(False)) | st.tuples(spelled | broken, st.just(True))


@settings(deadline=None)
@given(st.lists(written, max_size=10), st.integers(0, 40))
def test_sends_are_encoded_the_same(compiled: Ops, drawn: list[tuple[bytes, bool]], cut: int) -> None:
    kept: list[bytes] = []
    is_odd = False
    for frame, is_unusual in drawn:
        plainly, compiledly = (reader.takes(frame) for reader in both(compiled))
        assert plainly or not compiledly
        event(f"encoded: {plainly} {compiledly}")
        if plainly is compiledly:
            kept.append(frame)
            is_odd |= is_unusual or b"\\" in frame  # an escape in the header
    data = b"".join(kept)
    data = data[: len(data) - cut]
    results = []
    for reader in both(compiled):
        ends = [reader.read(data, physical_offset=1 << 40, time=1_795_255_006_748)]
        while ends[-1][1] < len(data):  # what follows the frames that are left
            ends.append(reader.read_more(data, ends[-1][1]))
        # A batch with a rare message ends the frames before it only for whoever can read its header.
        results.append(came_of(reader, () if is_odd else ends))
    assert results[0] == results[1]


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(FRAMES), st.integers(0, 3), st.integers(0, 3)), max_size=6),
    st.sampled_from([0, 100, 400, 1_000, 10_000]),
    st.sampled_from([300, 1_000, 10_000]),
    st.sampled_from([600, 1_500, 10_000]),
    st.booleans(),
)
def test_what_there_is_no_room_for_is_left_the_same(
    compiled: Ops,
    drawn: list[tuple[Callable[..., bytes], int, int]],
    room: int,
    records_max: int,
    answers_max: int,
    is_rare: bool,
) -> None:
    def frame(make: Callable[..., bytes], queue_id: int, count: int) -> bytes:
        texts = b"DELAY\x011\x02" if is_rare and count == 3 else b""
        body = batch.encode([batch.BatchMessage(b"x" * 50, texts)] * count) if count else b"body"
        return make({"e": str(queue_id)}, body, code=BATCH if count else 310)

    data = b"".join(frame(*one) for one in drawn)
    results = []
    for reader in both(compiled, records_max=records_max, answers_max=answers_max):
        ends = reader.read(data, room=room + END_FILE_MIN_BLANK)
        results.append(came_of(reader, ends))
    event(f"whole: {results[0][0][0] == len(data)}")
    assert results[0] == results[1]


@pytest.mark.parametrize("born_host", [HOST, pack_host("2001:db8::7", 50123)])
@pytest.mark.parametrize("store_host", [HOST, pack_host("2001:db8::7", 10911)])
@pytest.mark.parametrize("rest", [b"", b"\0", json_frame()[:-1], framed(b"{}"), framed(b"{}", b"", 2)])
def test_hosts_and_what_follows_are_seen_the_same(
    compiled: Ops, born_host: bytes, store_host: bytes, rest: bytes
) -> None:
    data = json_frame() + binary_frame({"e": "2"}) + rest
    readers = both(compiled, born_host=born_host, store_host=store_host)
    results = [came_of(reader, reader.read(data)) for reader in readers]
    assert results[0] == results[1]
