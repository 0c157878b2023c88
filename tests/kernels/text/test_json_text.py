import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kernels.sending import ADDED, Reader, framed, header, json_frame

from cometmq.format.record import decode
from cometmq.kernels.ops import Ops

TAIL = "UNIQ_KEY\x01abc\x02"


@given(st.text(), st.booleans())
def test_properties_read_as_json_has_them(compiled: Ops, text: str, ascii_only: bool) -> None:
    reader = Reader(compiled)
    text = text.replace("\x01", "").replace("\x02", "").encode("utf-8", "replace").decode()
    value = f"x\x01{text}\x02{TAIL}"
    data = framed(json.dumps(header({"i": value}), ensure_ascii=ascii_only).encode())
    taken = reader.takes(data)
    assert taken or (ascii_only and any(ord(char) > 0xFFFF for char in text))
    if taken:
        assert decode(reader.batch.records).properties == value.encode() + ADDED


@pytest.mark.parametrize("escape", [r"\v", r"\u12", r"\u12g4", r"\ud800", "\\", "\n", "\x00", r"\u00"])
def test_what_is_no_json_text_leaves_the_frame(compiled: Ops, escape: str) -> None:
    data = json.dumps(header({"i": f"x\x01MARK\x02{TAIL}"}), separators=(",", ":")).replace("MARK", escape)
    assert not Reader(compiled).takes(framed(data.encode()))


@pytest.mark.parametrize("malformed", [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xc0\x80"])
def test_what_is_no_utf8_leaves_the_frame(compiled: Ops, malformed: bytes) -> None:
    data = json.dumps(header({"i": f"x\x01MARK\x02{TAIL}"})).encode().replace(b"MARK", malformed)
    assert not Reader(compiled).takes(framed(data))


@given(st.integers(-(10**18) + 1, 10**18 - 1))
def test_numbers_of_up_to_18_digits_are_read(compiled: Ops, number: int) -> None:
    reader = Reader(compiled)
    assert reader.takes(json_frame({"g": str(number)}))
    assert reader.send()["born_time"] == number


@pytest.mark.parametrize("number", ["", "-", "+1", "01", "-0", "1e3", "0x1", " 1", "1 ", "1" * 19])
def test_other_numbers_leave_the_frame(compiled: Ops, number: str) -> None:
    assert not Reader(compiled).takes(json_frame({"g": number}))
