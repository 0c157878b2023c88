"""The rows of fields that show a store file."""

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

EPOCH = datetime.fromtimestamp(0, UTC)
TIME_MS_MAX = 253_402_300_799_999
"""The last ms of the year 9999: later times are not shown as dates."""

DAMAGED = "damaged"
UNUSED = "unused"


class Field(NamedTuple):
    """One field.

    Attributes:
        position: of its first byte in the file.
        value: the value, for programs.
        text: the value for people, empty if it is shown as it is.
    """

    position: int
    name: str
    value: Any
    text: str = ""


class InspectRow(NamedTuple):
    """One item of a file.

    Attributes:
        what: record, blank, entry, slot, …; DAMAGED for bytes that cannot be read, UNUSED for zeros.
        position: of its first byte in the file.
        size: in bytes.
        note: a remark, or empty.
    """

    what: str
    position: int
    size: int
    fields: list[Field]
    note: str = ""


def time_field(position: int, name: str, time_ms: int) -> Field:
    """Return the field of a time, ms since the epoch."""
    if not 0 < time_ms <= TIME_MS_MAX:
        return Field(position, name, time_ms)
    moment = (EPOCH + timedelta(milliseconds=time_ms)).isoformat(timespec="milliseconds")
    return Field(position, name, time_ms, f"{time_ms} ({moment.replace('+00:00', 'Z')})")
