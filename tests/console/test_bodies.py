import csv
import json
import tracemalloc
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.messages import new_stored

from cometmq.admin.readable import excerpt_of
from cometmq.console import bodies
from cometmq.console.bodies import FORMATS, BodyView, hex_of, short_text
from cometmq.format.compression import compress
from cometmq.format.sys_flag import CompressionType, compressed_with
from cometmq.message import StoredMessage

ZLIB = compressed_with(0, CompressionType.ZLIB)


def view_of(body: bytes, name: str) -> BodyView:
    return bodies.view_of(excerpt_of(new_stored(body), bodies.SHOWN_MAX), name)


def exported(kind: str, *messages: StoredMessage, size_max: int = 1_000) -> str:
    heading, line, _ = FORMATS[kind]
    return (heading + b"".join(line(message, size_max) for message in messages)).decode()


@pytest.mark.parametrize(
    ("body", "wanted", "name", "text"),
    [
        (b'{"a":1}', "", "json", '{\n  "a": 1\n}'),
        (b'{"a":1}', "text", "text", '{"a":1}'),
        (b"{broken", "json", "text", "{broken"),
        ("größe".encode(), "", "text", "größe"),
        (b"[" * 10_000, "json", "text", "[" * 10_000),
        (b"\xff\x00", "json", "hex", f"00000000  {'ff 00':<23}  {'':<23}  .."),
        (b"ab", "hex", "hex", f"00000000  {'61 62':<23}  {'':<23}  ab"),
        (b"", "json", "text", ""),
    ],
)
def test_a_body_is_shown_in_the_view_that_fits(body: bytes, wanted: str, name: str, text: str) -> None:
    assert view_of(body, wanted) == (name, text, True)


def test_a_long_body_is_cut_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "SHOWN_MAX", 3)
    monkeypatch.setattr(bodies, "HEX_MAX", 1)
    assert view_of(b"abcd", "text") == ("text", "abc", False)
    assert view_of(b"abcd", "hex").text.startswith("00000000  61   ")
    assert not view_of(b"abcd", "hex").is_whole


@given(st.binary(max_size=100))
def test_hex_has_each_byte_at_its_place(body: bytes) -> None:
    lines = hex_of(body).splitlines()
    assert b"".join(bytes.fromhex(line[10:58].replace(" ", "")) for line in lines) == body
    assert [int(line[:8], 16) for line in lines] == list(range(0, len(body), 16))


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"a\r\n  b", "a b"),
        (b"x" * 200, "x" * 119 + "…"),
        (b"\xff\xfe", "2 bytes: ff fe"),
        (b"y" * 479 + "ü".encode(), "y" * 119 + "…"),
    ],
)
def test_a_row_has_the_beginning_of_a_body(body: bytes, text: str) -> None:
    assert short_text(excerpt_of(new_stored(body))) == text


def test_a_row_tells_of_bytes_how_many_there_are_and_how_they_are_compressed() -> None:
    bomb = compress(b"\xff" * 1_000_000, CompressionType.ZLIB)
    assert short_text(excerpt_of(new_stored(bomb, sys_flag=ZLIB))) == (
        f"{len(bomb)} bytes, compressed by zlib: {' '.join(['ff'] * 24)}"
    )


@pytest.mark.parametrize(
    "body",
    [b"[" * 700 + b"1," * 120_000 + b"1" + b"]" * 700, b'{"a":' * 900 + b"1" + b"}" * 900],
    ids=["wide", "deep"],
)
def test_nested_json_is_indented_as_far_as_it_is_shown(body: bytes) -> None:
    tracemalloc.start()
    try:
        view = view_of(body, "")
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()
    assert len(view.text) <= bodies.SHOWN_MAX and not view.is_whole and view.name in ("json", "text")


def test_exports_have_all_fields() -> None:
    messages = [new_stored(b'{"a": 1}', store_time=1), new_stored(b"\xff", tags="=1+1")]
    first, second = csv.DictReader(StringIO(exported("csv", *messages)))
    assert first["body"] == '{"a": 1}' and first["store_time"] == "1970-01-01T00:00:00.001Z"
    assert first["keys"] == "a b" and json.loads(first["properties"]) == {"KEYS": "a b"}
    assert second["body"] == "ff" and second["tags"] == "'=1+1", "no formula for a spreadsheet"
    lines = [json.loads(line) for line in exported("jsonl", *messages).splitlines()]
    assert lines[0]["body"] == '{"a": 1}' and lines[1]["body_hex"] == "ff" and lines[1]["tags"] == "=1+1"


def test_a_body_that_is_too_large_is_left_out_of_an_export_which_says_so() -> None:
    small = new_stored(compress(b"small", CompressionType.ZLIB), sys_flag=ZLIB)
    bomb = new_stored(compress(bytes(1_001), CompressionType.ZLIB), sys_flag=ZLIB)
    large = new_stored(b"x" * 1_001)
    told = f"{len(bomb.body)} bytes compressed by zlib, larger than 1000: download it from /messages/o?raw=1"
    rows = list(csv.DictReader(StringIO(exported("csv", small, bomb, large))))
    assert [row["body"][: len(told)] for row in rows][:2] == ["small", told]
    assert rows[2]["body"].startswith("1001 bytes, larger than 1000")
    first, second, _ = map(json.loads, exported("jsonl", small, bomb, large).splitlines())
    assert first["body"] == "small" and not first["sys_flag"] & 1
    assert second["body_left_out"].startswith(told) and "body" not in second and second["sys_flag"] & 1
    damaged = new_stored(b"no zlib", sys_flag=ZLIB)
    assert json.loads(exported("jsonl", damaged))["body"] == "no zlib"
