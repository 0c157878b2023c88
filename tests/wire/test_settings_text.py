import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.errors import FormatError
from cometmq.wire.settings_text import decode, encode


def test_settings_are_lines_sorted_by_name() -> None:
    assert encode({"b": "2", "a": "1=x", "c": ""}) == b"a=1=x\nb=2\nc=\n"


@given(st.dictionaries(st.from_regex(r"\A[a-zA-Z0-9_.]+\Z"), st.from_regex(r"\A[!-\[\]-~][ -\[\]-~]*\Z")))
def test_settings_come_back_as_they_went(values: dict[str, str]) -> None:
    assert decode(encode({name: f".{value}" for name, value in values.items()})) == {
        name: f".{value}" for name, value in values.items()
    }


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("", {}),
        ("# comment\n! another\n\n  \t\n", {}),
        ("a=1\nb = 2\r\nc:3\rd 4\ne\t=\t5", {"a": "1", "b": "2", "c": "3", "d": "4", "e": "5"}),
        ("brokerName", {"brokerName": ""}),
        ("a=1\na=2", {"a": "2"}),
        ("a=b=c:d e ", {"a": "b=c:d e "}),
        ("a=one,\\\n    two", {"a": "one,two"}),
        ("a=one\\\\\nb=2", {"a": "one\\", "b": "2"}),
        ("# goes not on \\\na=1", {"a": "1"}),
        ("a\\=b\\ c=1", {"a=b c": "1"}),
        ("a=\\t\\n\\q\\u4e2d\\", {"a": "\t\nq中"}),
        ("a=\\ud83d\\ude00\\ud800", {"a": "😀\ufffd"}),
        ("名=值", {"名": "值"}),
    ],
)
def test_reads_what_java_reads(text: str, read: dict[str, str]) -> None:
    assert decode(text.encode()) == read


@pytest.mark.parametrize("data", [b"a=\xff", b"a=\\u12"])
def test_what_java_refuses_is_refused(data: bytes) -> None:
    with pytest.raises(FormatError, match="settings"):
        decode(data)


@given(st.binary(max_size=60))
def test_garbage_is_read_or_refused_and_nothing_worse(data: bytes) -> None:
    with contextlib.suppress(FormatError):
        decode(data)


def test_backslashes_and_lines_that_go_on_are_read_in_no_time() -> None:
    # The pattern that looked for backslashes at a line's end began anew at each of them.
    before = time.process_time()
    assert decode(b"a=" + b"\\" * 100_000 + b"x\n") == {"a": "\\" * 50_000 + "x"}
    assert decode(b"a=" + b"x\\\n" * 100_000) == {"a": "x" * 100_000}
    assert time.process_time() - before < 5
