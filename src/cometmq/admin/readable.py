"""Texts for people: of times, durations and bodies; and a message as fields for programs.

Of a body only what is shown is decompressed and kept: a few bytes may expand to very many.
"""

from codecs import getincrementaldecoder
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from cometmq.errors import FormatError
from cometmq.format.compression import decompress_beginning
from cometmq.format.sys_flag import COMPRESSED, CompressionType, compression_type, is_compressed
from cometmq.message import StoredMessage

EPOCH: Final = datetime.fromtimestamp(0, UTC)
LISTED: Final = 480
"""Bytes of a body of which a list shows something."""
_UTF_8: Final = getincrementaldecoder("utf-8")
_WHITE_SPACE: Final = dict.fromkeys(map(ord, "\r\n\t"))


class Excerpt(NamedTuple):
    """A message with the beginning of its body.

    Attributes:
        message: the message without its body. Its ``sys_flag`` says that the body is compressed if ``size``
            is that of the compressed one.
        beginning: the first bytes of the body, decompressed; as they are stored if that fails.
        is_whole: whether this is all of the body.
        size: bytes of the body; as it is stored where nobody knows how large it is when decompressed.
        compression: how the body of this size is compressed; None if it is not.
    """

    message: StoredMessage
    beginning: bytes
    is_whole: bool
    size: int
    compression: str | None

    @property
    def text(self) -> str | None:
        """The beginning as text, or None if it is not printable text."""
        return body_text(self.beginning, is_whole=self.is_whole)


def excerpt_of(message: StoredMessage, size: int = LISTED) -> Excerpt:
    """Return a message, whose body is as it is stored, with the first bytes of it."""
    body, sys_flag, stored_size = message.body, message.sys_flag, len(message.body)
    without = replace(message, body=b"")
    try:
        beginning, is_whole = decompress_beginning(body, sys_flag, size)
    except FormatError:
        return Excerpt(without, body[:size], stored_size <= size, stored_size, compression_name(sys_flag))
    if is_whole:
        without = replace(without, sys_flag=sys_flag & ~COMPRESSED)
        return Excerpt(without, beginning, True, len(beginning), None)
    return Excerpt(without, beginning, False, stored_size, compression_name(sys_flag))


def compression_name(sys_flag: int) -> str | None:
    """Return how a body is compressed, in lower case; None if it is not."""
    if not is_compressed(sys_flag):
        return None
    number = compression_type(sys_flag)
    known = {one.value: one.name.lower() for one in CompressionType}
    return known.get(number, f"unknown type {number}")


def message_fields(message: StoredMessage) -> Mapping[str, Any]:
    """Return the fields of a message for JSON; a body that is not text is in hex under ``body_hex``."""
    values = {name: getattr(message, name) for name in StoredMessage.__struct_fields__ if name != "body"}
    text = body_text(message.body)
    return values | ({"body_hex": message.body.hex()} if text is None else {"body": text})


def body_text(body: bytes, *, is_whole: bool = True) -> str | None:
    """Return a body as text, or None if it is not printable text.

    Args:
        is_whole: whether this is all of it; else a character that is cut at the end is left out.
    """
    try:
        text = _UTF_8().decode(body, is_whole)
    except UnicodeDecodeError:
        return None
    return text if text.isprintable() or text.translate(_WHITE_SPACE).isprintable() else None


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
