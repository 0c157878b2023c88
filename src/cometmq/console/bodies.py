"""A message's body as JSON, as text and in hex, and messages as CSV and as JSON lines.

No more of a body is decompressed, or indented, than is shown.
"""

import csv
import json
from collections.abc import Callable, Iterable
from io import StringIO
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from cometmq.admin.readable import Excerpt, excerpt_of, message_fields, time_text
from cometmq.message import StoredMessage

SHOWN_MAX: Final = 256 * 1024
"""Most bytes of a body that a page reads, and characters that it shows as JSON or as text, ..."""
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
_INDENTING: Final = json.JSONEncoder(indent=2, ensure_ascii=False)


class BodyView(NamedTuple):
    """A body in one view: its text, and whether that is all of it."""

    name: str
    text: str
    is_whole: bool


def view_of(excerpt: Excerpt, name: str) -> BodyView:
    """Return a body as ``json``, ``text`` or ``hex``, or in the first view that fits if that one does not.

    Args:
        excerpt: with as much of the body as a page shows: ``SHOWN_MAX`` bytes.
    """
    body, text = excerpt.beginning, None if name == "hex" else excerpt.text
    if text is not None:
        shown = _indented(body) if excerpt.is_whole and name in ("", "json") else None
        if shown is not None:
            return BodyView("json", shown[:SHOWN_MAX], len(shown) <= SHOWN_MAX)
        return BodyView("text", text, excerpt.is_whole)
    return BodyView("hex", hex_of(body[:HEX_MAX]), excerpt.is_whole and len(body) <= HEX_MAX)


def _indented(body: bytes) -> str | None:
    """Return JSON with indentation, up to where a page stops to show it; None if it is none."""
    if body.lstrip()[:1] not in (b"{", b"["):
        return None
    pieces, size = [], 0
    try:
        for piece in _INDENTING.iterencode(json.loads(body)):
            pieces.append(piece)
            size += len(piece)
            if size > SHOWN_MAX:
                break
    except (ValueError, RecursionError):
        return None
    return "".join(pieces)


def hex_of(body: bytes) -> str:
    """Return a body in hex, 16 bytes a line with their place and their characters."""
    lines = []
    for place in range(0, len(body), ROW):
        row = body[place : place + ROW]
        chars = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{place:08x}  {row[:8].hex(' '):<23}  {row[8:].hex(' '):<23}  {chars}")
    return "\n".join(lines)


def short_text(excerpt: Excerpt) -> str:
    """Return the beginning of a body on one line."""
    text = excerpt.text
    if text is None:
        compressed = f", compressed by {excerpt.compression}" if excerpt.compression else ""
        return f"{excerpt.size} bytes{compressed}: {excerpt.beginning[:24].hex(' ')}"
    return shortened(" ".join(text.split()), is_whole=excerpt.is_whole)


def shortened(line: str, *, is_whole: bool = True) -> str:
    """Return the beginning of a line; an ellipsis says that there is more, or that it is not whole anyway."""
    return line if len(line) <= SHORT_MAX and is_whole else line[: SHORT_MAX - 1] + "…"


def json_line(message: StoredMessage, size_max: int) -> bytes:
    """Return a message as JSON on a line, as ``cometmq message print --json`` prints it.

    Args:
        message: with its body as it is stored.
        size_max: most bytes of a body, decompressed; a larger one is left out, and ``body_left_out`` says so.
    """
    return msgspec.json.encode(_fields(message, size_max)) + b"\n"


def csv_line(message: StoredMessage, size_max: int) -> bytes:
    """Return a message as a line of CSV. What a spreadsheet takes for a formula gets an apostrophe in front.

    Args:
        message, size_max: as for ``json_line``; the body says why it is left out.
    """
    fields = _fields(message, size_max)
    fields["body"] = fields.get("body", fields.get("body_hex", fields.get("body_left_out")))
    fields["keys"] = " ".join(message.keys)
    fields["properties"] = json.dumps(dict(message.properties), ensure_ascii=False)
    for name in ("store_time", "born_time"):
        fields[name] = time_text(fields[name])
    return _csv([_harmless(fields[name]) for name in COLUMNS])


def _fields(message: StoredMessage, size_max: int) -> dict[str, Any]:
    excerpt = excerpt_of(message, size_max)
    if excerpt.is_whole:
        return dict(message_fields(replace(excerpt.message, body=excerpt.beginning)))
    fields = dict(message_fields(excerpt.message))
    del fields["body"]
    compressed = f" compressed by {excerpt.compression}" if excerpt.compression else ""
    remedy = f"download it from /messages/{quote(message.offset_id)}?raw=1, or raise --body-bytes-max"
    left_out = f"{excerpt.size} bytes{compressed}, larger than {size_max}: {remedy}"
    return fields | {"body_left_out": left_out}


def _csv(row: Iterable[object]) -> bytes:
    out = StringIO()
    csv.writer(out).writerow(row)
    return out.getvalue().encode()


def _harmless(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


class Format(NamedTuple):
    """A format of exports: what is at its beginning, how each message is written, and its media type."""

    heading: bytes
    line: Callable[[StoredMessage, int], bytes]
    media_type: str


FORMATS: Final = {
    "csv": Format(_csv(COLUMNS), csv_line, "text/csv; charset=utf-8"),
    "jsonl": Format(b"", json_line, "application/x-ndjson"),
}
"""The formats of exports by name."""
