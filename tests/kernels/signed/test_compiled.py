"""The compiled operation on signed requests equals the plain one.

Of frames in an unusual spelling it may leave more: those are checked as commands, to the same effect.
"""

import json
from functools import partial
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernels.frames import framed, java_header, read_the_same
from tests.kernels.signing import ANN, read_signed

from cometmq.kernels import plain
from cometmq.kernels.ops import Ops
from cometmq.kernels.signed.rows import CODES, KEY_FIELDS, SignedRows
from cometmq.wire.acl import SIGNATURE, signed_fields

texts = st.text(st.characters(codec="utf-8"), max_size=20) | st.text('ab\\"/\x01\n\u00fc\u20ac', max_size=30)
names = st.sampled_from([*KEY_FIELDS, SIGNATURE, *"acdefghijklmn", "bname", "bnam", "bo", "\u00fc", 'q"', ""])


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    fields: dict[str, Any] = draw(st.dictionaries(names, texts, max_size=12))
    body = draw(st.binary(max_size=20))
    if draw(st.booleans()):
        fields = signed_fields(fields, body, 479, ANN)
    if draw(st.integers(0, 9)) == 0:
        fields[draw(names)] = draw(st.sampled_from([1, None, True, [], {}]))
    code, flag = draw(st.sampled_from([*CODES, 34])), draw(st.sampled_from([0, 0, 0, 1, 2, 3]))
    header = java_header(code, 7, fields, flag=flag)
    for name in draw(st.lists(st.sampled_from(sorted(header)), max_size=1)):
        del header[name]
    separators = draw(st.sampled_from([(",", ":"), (", ", ": ")]))
    return framed(json.dumps(header, separators=separators, ensure_ascii=draw(st.booleans())).encode(), body)


@settings(deadline=None)
@given(st.lists(frames(), max_size=10), st.integers(0, 40), st.integers(1, 3_000))
def test_signed_requests_are_read_the_same(compiled: Ops, drawn: list[bytes], cut: int, size: int) -> None:
    both = (partial(read_signed, ops.signed) for ops in (plain, compiled))
    data = read_the_same(drawn, *both)
    data = data[: len(data) - cut]
    for into in (None, SignedRows(3), SignedRows(texts_size=size)):
        assert read_signed(plain.signed, data, into=into) == read_signed(compiled.signed, data, into=into)


def test_a_field_that_comes_twice_is_left(compiled: Ops) -> None:
    """Python's decoder takes the last one: whoever handles the request may take the first."""
    text = b'{"code":310,"extFields":{"b":"one","AccessKey":"ann","b":"two"},"opaque":1}'
    assert read_signed(compiled.signed, framed(text)) == []
