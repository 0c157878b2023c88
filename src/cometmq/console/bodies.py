"""A message's body as JSON, as text and in hex, and messages as CSV and as JSON lines."""

import csv
import json
from collections.abc import Iterable
from io import StringIO
from typing import Final, NamedTuple

import msgspec

from cometmq.admin.readable import body_text, message_fields, time_text
from cometmq.message import StoredMessage

SHOWN_MAX: Final = 256 * 1024
"""Most bytes of a body that a page shows as JSON or as text, ..."""
HEX_MAX: Final = 16 * 1024
"""... and in hex: an export has them all."""
SHORT_MAX: Final = 120
"""Most characters of a body in a list."""
ROW: Final = 16
COLUMNS: Final = (
    "store_time", "topic", "queue_id", "queue_offset", "message_id", "offset_id", "tags", "keys",
    "properties", "born_time", "born_host", "store_host", "reconsume_times", "body",
)  # fmt: skip
FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
"""What begins a formula for a spreadsheet: a text from a producer must not be one."""


class BodyView(NamedTuple):
    """A body in one view: its text, and whether that is all of it."""

    name: str
    text: str
    is_whole: bool


def view_of(body: bytes, name: str) -> BodyView:
    """Return a body as ``json``, ``text`` or ``hex``, or in the first view that fits if that one does not."""
    readable = body_text(body)
    if name != "hex" and readable is not None:
        shown = _indented(body) if name in ("", "json") else None
        if shown is not None:
            return BodyView("json", shown[:SHOWN_MAX], len(shown) <= SHOWN_MAX)
        return BodyView("text", readable[:SHOWN_MAX], len(readable) <= SHOWN_MAX)
    return BodyView("hex", hex_of(body[:HEX_MAX]), len(body) <= HEX_MAX)


def _indented(body: bytes) -> str | None:
    if len(body) > SHOWN_MAX or not body.lstrip().startswith((b"{", b"[")):
        return None
    try:
        return json.dumps(json.loads(body), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return None


def hex_of(body: bytes) -> str:
    """Return a body in hex, 16 bytes a line with their place and their characters."""
    lines = []
    for place in range(0, len(body), ROW):
        row = body[place : place + ROW]
        chars = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{place:08x}  {row[:8].hex(' '):<23}  {row[8:].hex(' '):<23}  {chars}")
    return "\n".join(lines)


def short_text(body: bytes) -> str:
    """Return the beginning of a body on one line."""
    text = body_text(body[: 4 * SHORT_MAX])
    if text is None and (text := body_text(body)) is None:
        return f"{len(body)} bytes: {body[:24].hex(' ')}"
    line = " ".join(text.split())
    return line if len(line) <= SHORT_MAX else line[: SHORT_MAX - 1] + "…"


def json_lines(messages: Iterable[StoredMessage]) -> bytes:
    """Return messages as JSON, one a line, as ``cometmq message print --json`` prints them."""
    return b"".join(msgspec.json.encode(message_fields(message)) + b"\n" for message in messages)


def csv_text(messages: Iterable[StoredMessage]) -> str:
    """Return messages as CSV. What a spreadsheet would take for a formula gets an apostrophe in front."""
    out = StringIO()
    writer = csv.writer(out)
    writer.writerow(COLUMNS)
    for message in messages:
        fields = dict(message_fields(message))
        fields["body"] = fields.get("body", fields.get("body_hex"))
        fields["keys"] = " ".join(message.keys)
        fields["properties"] = json.dumps(dict(message.properties), ensure_ascii=False)
        for name in ("store_time", "born_time"):
            fields[name] = time_text(fields[name])
        writer.writerow([_harmless(fields[name]) for name in COLUMNS])
    return out.getvalue()


def _harmless(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value
