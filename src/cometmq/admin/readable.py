"""Texts for people: of times, durations and bodies; and a message as fields for programs."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from cometmq.message import StoredMessage

EPOCH: Final = datetime.fromtimestamp(0, UTC)


def message_fields(message: StoredMessage) -> Mapping[str, Any]:
    """Return the fields of a message for JSON; a body that is not text is in hex under ``body_hex``."""
    values = {name: getattr(message, name) for name in StoredMessage.__struct_fields__ if name != "body"}
    text = body_text(message.body)
    return values | ({"body_hex": message.body.hex()} if text is None else {"body": text})


def body_text(body: bytes) -> str | None:
    """Return a body as text, or None if it is not printable text."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    return text if all(char.isprintable() or char in "\r\n\t" for char in text) else None


def time_text(time_ms: int) -> str:
    """Format a time in UTC; one that no calendar has is returned as a number."""
    try:
        time = EPOCH + timedelta(milliseconds=time_ms)  # exact, unlike seconds as a float
    except OverflowError:
        return str(time_ms)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def duration_text(length_ms: int) -> str:
    """Format a duration by its two largest units: ``3d 4h``, ``12s``."""
    left_s = max(length_ms, 0) // 1000
    parts: list[str] = []
    for unit, unit_s in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        count, left_s = divmod(left_s, unit_s)
        if count or (unit == "s" and not parts):
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2])
