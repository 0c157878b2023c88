"""The compiled operation on sends equals the plain one.

Of frames in an unusual spelling the compiled one may leave more: those become commands, to the same effect.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from tests.kernels.sending import HOST, USUAL, Reader, binary_frame, framed, json_frame

from cometmq.format.host import pack_host
from cometmq.format.record import END_FILE_MIN_BLANK
from cometmq.kernels import plain
from cometmq.kernels.ops import Ops
from cometmq.wire import batch
from cometmq.wire.codes import RequestCode

BATCH = int(RequestCode.SEND_BATCH_MESSAGE)
FRAMES: list[Callable[..., bytes]] = [json_frame, binary_frame]
PROPERTIES = [
    USUAL["i"],
    "KEYS\x01k1 k2\x02UNIQ_KEY\x01C000020224773824AFC66920\x02WAIT\x01true\x02TAGS\x01TagA\x02",
    "UNIQ_KEY\x01\u0430\u0431\u0432\x02",
    'UNIQ_KEY\x01a"b\x02',
    "UNIQ_KEY\x01abc\x02TAGS\x01\u6807\u7b7e \U0001f642\x02",
    'UNIQ_KEY\x01abc\x02TAGS\x01\u043a\x02\u0438\x01\\ "x"\t\r\n\b\f/\x02',
    "UNIQ_KEY\x01abc\x02TAGS\x01a\x02TAGS\x01b\x02",
    "UNIQ_KEY\x01abc\x02TAGS\x01a\x02TAGS\x01\x02",
    "UNIQ_KEY\x01abc\x02UNIQ_KEY\x01def\x02",
    "UNIQ_KEY\x01\x02KEYS\x01k1\x02",
    "UNIQ_KEY\x01abc\x02\x02TAGS\x02\x01x\x02a\x01b\x01c\x02",
    "UNIQ_KEY\x01abc",
    "KEYS\x01k1\x02",
    "",
    *(
        f"UNIQ_KEY\x01abc\x02{name}\x01{value}\x02"
        for name, value in [
            ("DELAY", "3"),
            ("DELAY", ""),
            ("XDELAY", "1"),
            ("WAIT", "FALSE"),
            ("WAIT", "true"),
            ("WAIT", ""),
            ("TRAN_MSG", "true"),
            ("TIMER_DELAY_SEC", "10"),
            ("MSG_REGION", "here"),
            ("MSG_REGIONAL", "x"),
            ("CLUSTER", "c"),
            ("POP_CK", "x"),
            ("IDEMPOTENCE_KEY", "k"),
            ("long", "v" * 32_700),
            ("long", "v" * 32_735),
        ]
    ),
]
NUMBERS = ["0", "1", "-1", "3", "4", "04", "-0", "1.0", "x", "", " 1", "2147483647", "2147483648", "9" * 30]
CHANGES: dict[str, Sequence[Any]] = {
    "a": ["group", "", "gr\u00fcppe", 'q"'],
    "b": ["T", "U", "TT", "", "\u0422"],
    "d": NUMBERS,
    "e": ["0", "1", "2", "3", *NUMBERS],
    "f": ["0", "1", "48", "4", "8", *NUMBERS],
    "g": ["1795255006748", "-5", "9223372036854775807", "9223372036854775808", *NUMBERS],
    "h": ["7", "-7", *NUMBERS],
    "i": PROPERTIES,
    "j": NUMBERS,
    "k": ["true", "false", "True", "1", "", "x"],
    "l": NUMBERS,
    "m": ["false", "true", "0", "truefalse"],
    "zz": ["anything", "\u00fc"],
}
fields = st.lists(st.sampled_from(sorted(CHANGES)), max_size=3, unique=True).flatmap(
    lambda names: st.fixed_dictionaries({name: st.sampled_from(CHANGES[name]) for name in names})
)
bodies = st.sampled_from([b"body", b"x" * 128, b"", bytes(range(256)), b"y" * 1000, b"y" * 1001])
members = st.builds(
    batch.BatchMessage,
    bodies,
    st.sampled_from([text.encode() for text in PROPERTIES]) | st.binary(max_size=20),
    st.integers(-(2**31), 2**31 - 1),
)
batch_bodies = st.builds(
    lambda messages, cut, tail: batch.encode(messages)[cut:] + tail,
    st.lists(members, min_size=1, max_size=4),
    st.sampled_from([0] * 12 + [1, 22]),
    st.sampled_from([b""] * 12 + [b"\0", bytes(22)]),
)
frames = st.builds(
    lambda frame, values, body, code, flag, opaque: frame(values, body, code=code, flag=flag, opaque=opaque),
    st.sampled_from(FRAMES),
    fields,
    bodies | batch_bodies,
    st.sampled_from([310] * 6 + [BATCH] * 3 + [10, 11]),
    st.sampled_from([0] * 6 + [1, 2, 3, 4]),
    st.integers(-(2**31), 2**31 - 1),
)


def respelled(frame: bytes, old: bytes, new: bytes) -> bytes:
    """Return a frame whose header has a part in another spelling."""
    body_at = 8 + int.from_bytes(frame[5:8], "big")
    return framed(frame[8:body_at].replace(old, new, 1), frame[body_at:], frame[4])


SPELLINGS = [
    (b'"e":', b'"e" : '),
    (b'"e":', b'"\\u0065":'),
    (b'"code":310', b'"code" : 310'),
    (b'"code":310', b'"version":1,"code":310'),
    (b'"opaque":', b'"flag":0,"opaque":'),
    (b'"k":', b'"k":"true","k":'),
    (b"{", b"{ "),
]
spelled = st.builds(lambda frame, spelling: respelled(frame, *spelling), frames, st.sampled_from(SPELLINGS))
broken = st.builds(
    respelled,
    frames,
    st.sampled_from([b'"e":', b'"flag":', b'"code":310', b"{", b'"k":', b"}"]),
    st.sampled_from([b'"e"', b'"flag":0,,', b'"code":310.5', b"", b"\xff", b"}}"]),
)


def both(compiled: Ops, **options: Any) -> list[Reader]:
    return [Reader(ops, body_length_max=3000, **options) for ops in (plain.sends, compiled.sends)]


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
