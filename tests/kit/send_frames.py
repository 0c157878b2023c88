"""x."""

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st
from tests.kernels.sending import USUAL, binary_frame, framed, json_frame

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
