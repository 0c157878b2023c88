import csv
import json
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.test_output import new_stored

from cometmq.console import bodies
from cometmq.console.bodies import csv_text, hex_of, json_lines, short_text, view_of


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
    assert short_text(body) == text


def test_exports_have_all_fields() -> None:
    messages = [new_stored(b'{"a": 1}', store_time=1), new_stored(b"\xff", tags="=1+1")]
    first, second = csv.DictReader(StringIO(csv_text(messages)))
    assert first["body"] == '{"a": 1}' and first["store_time"] == "1970-01-01T00:00:00.001Z"
    assert first["keys"] == "a b" and json.loads(first["properties"]) == {"KEYS": "a b"}
    assert second["body"] == "ff" and second["tags"] == "'=1+1", "no formula for a spreadsheet"
    lines = [json.loads(line) for line in json_lines(messages).splitlines()]
    assert lines[0]["body"] == '{"a": 1}' and lines[1]["body_hex"] == "ff" and lines[1]["tags"] == "=1+1"
