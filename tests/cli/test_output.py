import json
from typing import Any

import pytest

from cometmq.cli.output import (
    _short_body,
    body_text,
    duration_text,
    message_fields,
    print_fields,
    print_json,
    print_message,
    print_table,
    printable,
    time_text,
)
from cometmq.message import StoredMessage


def new_stored(body: bytes = b"body", **changes: Any) -> StoredMessage:
    values = dict.fromkeys(StoredMessage.__struct_fields__, 0) | {
        "topic": "T",
        "message_id": "m",
        "offset_id": "o",
        "tags": None,
        "keys": ("a", "b"),
        "properties": {"KEYS": "a b"},
        "body": body,
        "born_host": "127.0.0.1:1",
        "store_host": "127.0.0.1:2",
    }
    return StoredMessage(**values | changes)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"plain", "plain"),
        ("größer\tals\r\n".encode(), "größer\tals\r\n"),
        (b"", ""),
        (b"\xff\xfe", None),
        (b"\x1b[2J", None),
        (b"a\x00b", None),
    ],
)
def test_a_body_is_text_if_people_can_read_it(body: bytes, text: str | None) -> None:
    assert body_text(body) == text


def test_a_message_is_printed_as_json_with_all_that_it_has(capsys: pytest.CaptureFixture[str]) -> None:
    print_json(message_fields(new_stored(b"hello")))
    print_json(message_fields(new_stored(b"\x00\xff")))
    text, raw = map(json.loads, capsys.readouterr().out.splitlines())
    assert set(text) == set(StoredMessage.__struct_fields__)
    assert (text["body"], text["keys"], text["tags"]) == ("hello", ["a", "b"], None)
    assert raw["body_hex"] == "00ff" and "body" not in raw


def test_what_others_sent_plays_no_tricks_on_a_terminal() -> None:
    assert printable("plain é ü") == "plain é ü"
    assert printable("\x1b[31mred\r\n\udcff") == r"\x1b[31mred\r\n\udcff"


def test_a_table_keeps_a_row_on_a_line_when_no_terminal_reads_it(capsys: pytest.CaptureFixture[str]) -> None:
    long = "x" * 300
    print_table(("name", "count"), [(long, 1), ("[bold]\x1b", None)])
    out = capsys.readouterr().out.splitlines()
    head, _rule, first, second = (line.split() for line in out)
    assert (head, first, second) == (["name", "count"], [long, "1"], [r"[bold]\x1b", "None"])


def test_times_are_utc_and_one_that_no_calendar_has_stays_a_number() -> None:
    assert time_text(0) == "1970-01-01T00:00:00.000Z"
    assert time_text(1_600_000_000_123) == "2020-09-13T12:26:40.123Z"
    for beyond in (2**63 - 1, -(2**63), 300_000_000_000_000):
        assert time_text(beyond) == str(beyond)


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b"a\r\nb", "a\nb"),
        (b"safe\rspoof", r"safe\rspoof"),
        (b"\xff" * 40, f"[40 bytes: {'ff' * 32}…]"),
        (b"\xff", "[1 bytes: ff]"),
    ],
)
def test_a_body_is_shown_without_harm(body: bytes, shown: str) -> None:
    assert _short_body(body) == shown


@pytest.mark.parametrize(
    ("length_ms", "text"),
    [(-1, "0s"), (999, "0s"), (61_000, "1m 1s"), (3_600_000, "1h"), (90_061_000, "1d 1h")],
)
def test_a_length_of_time_is_told_by_its_largest_units(length_ms: int, text: str) -> None:
    assert duration_text(length_ms) == text


def test_all_that_a_message_has_is_printed_a_field_on_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    message = new_stored(b"\xff" * 65, store_time=1)
    print_fields(message_fields(message), message.body, more=": ask")
    out = capsys.readouterr().out
    assert "store_time  1 (1970-01-01T00:00:00.001Z)\n" in out and "keys  a b\n" in out
    assert "65 bytes: ff ff" in out and "… 1 bytes more: ask\n" in out
    print_message(message, as_json=False)
    assert capsys.readouterr().out.startswith("1970-01-01T00:00:00.001Z 0:0 - [65 bytes: ffff")
