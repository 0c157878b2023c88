"""The compiled operation on acknowledgements equals the plain one.

Of frames in an unusual spelling it may leave more: those become commands, to the same effect.
"""

from collections.abc import Sequence
from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernels.acking import USUAL, ack_frame, read_rows
from tests.kernels.reading import read_the_same

from cometmq.kernels import plain
from cometmq.kernels.acks.rows import AckRows
from cometmq.kernels.ops import Ops
from cometmq.wire.codes import RequestCode

NUMBERS = ["0", "1", "-1", "17", "04", "x", "", " 1", "2147483647", "2147483648", "9" * 18, "9" * 19]
VALUES: dict[str, Sequence[str]] = {
    "consumerGroup": ["group", "other", "", "gr\u00fcppe", 'q"', "x" * 1_000, "y" * 5_000],
    "topic": ["T", "TT", "", "\\u0054"],
    "extraInfo": [
        *(f"{USUAL['extraInfo'][:-1]}{number}" for number in NUMBERS),
        *("", " ", "x", " 7", "7 ", "5 17 15000 2 0 b 3 7", "5 17 15000 2 0 b 3 8"),
    ],
    **dict.fromkeys(("queueId", "offset"), NUMBERS),
    "topiC": ["another"],
}
fields = st.lists(st.sampled_from(sorted(VALUES)), max_size=3, unique=True).flatmap(
    lambda names: st.fixed_dictionaries({name: st.sampled_from(VALUES[name]) for name in names})
)
frames = st.builds(
    lambda values, code, flag, opaque, body: ack_frame(values, body, code=code, flag=flag, opaque=opaque),
    fields,
    st.sampled_from([int(RequestCode.ACK_MESSAGE)] * 5 + [200050]),
    st.sampled_from([0, 0, 0, 0, 1, 2]),
    st.integers(-(2**31), 2**31 - 1),
    st.sampled_from([b"", b"", b"", b"body"]),
)


@settings(deadline=None)
@given(st.lists(frames, max_size=10), st.integers(0, 40), st.integers(1, 300))
def test_acknowledgements_are_read_the_same(
    compiled: Ops, drawn: list[bytes], cut: int, texts_size: int
) -> None:
    both = (partial(read_rows, ops) for ops in (plain, compiled))
    data = read_the_same(drawn, *both)
    data = data[: len(data) - cut]
    for into in (None, AckRows(3), AckRows(texts_size=texts_size)):
        assert read_rows(plain, data, into=into) == read_rows(compiled, data, into=into)
