"""Parse times, durations and ranges of time, as commands and the console take them."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from cometmq.errors import SettingsError

TIME_MAX: Final = 2**63 - 1
HELP: Final = (
    "Store time, or FROM..TO: ms since the epoch, or ISO 8601 (2026-11-21T07:12:45.556Z); UTC without a zone."
    " A day, a minute or a second includes all of it."
)

_MILLISECONDS: Final = re.compile(r"[0-9]{1,15}")
_ISO: Final = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d)(?:[T ](?P<minute>\d\d:\d\d)(?P<second>:\d\d)?(?P<fraction>\.\d{1,6})?)?"
    r"(?P<zone>Z|[+-]\d\d:?\d\d)?",
    re.ASCII,
)
_MS: Final = timedelta(milliseconds=1)
_DURATION: Final = re.compile(r"([0-9]{1,9})(ms|s|m|h|d)", re.ASCII)
_UNITS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class TimeRange(NamedTuple):
    """The times from ``begin`` to ``end``, ms since the epoch, both included."""

    begin: int = 0
    end: int = TIME_MAX


def parse_range(text: str, option: str = "--time") -> TimeRange:
    """Parse a time or ``FROM..TO``, of which one may be missing. Raises SettingsError."""
    first, dots, last = text.partition("..")
    if not dots:
        return _parse(first, option)
    begin = _parse(first, option).begin if first else 0
    end = _parse(last, option).end if last else TIME_MAX
    if begin > end:
        raise SettingsError(f"{option} {text}: ends before it begins")
    return TimeRange(begin, end)


def is_duration(text: str) -> bool:
    """Return whether a text is a duration."""
    return _DURATION.fullmatch(text) is not None


def parse_duration(option: str, text: str) -> int:
    """Parse a duration to ms: ``72h``, ``3d``, ``30m``, ``10s``, ``500ms``. Raises SettingsError."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise SettingsError(f"{option}: {text!r} is not a duration: write 72h, 3d, 30m, 10s or 500ms")
    return int(found[1]) * _UNITS[found[2]]


def _parse(text: str, option: str) -> TimeRange:
    """Parse one time to the range that it includes."""
    if _MILLISECONDS.fullmatch(text):
        return TimeRange(int(text), int(text))
    found = _ISO.fullmatch(text)
    time = _time(text)
    if found is None or time is None:
        raise SettingsError(
            f"{option}: {text!r} is not a time: write ms since the epoch, or 2026-11-21, 2026-11-21T07:12, "
            "2026-11-21T07:12:45.556Z"
        )
    if found["fraction"]:
        length = _MS
    elif found["second"]:
        length = timedelta(seconds=1)
    else:
        length = timedelta(minutes=1) if found["minute"] else timedelta(days=1)
    begin = _to_ms(time if time.tzinfo else time.replace(tzinfo=UTC))
    return TimeRange(begin, begin + length // _MS - 1)


def _time(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _to_ms(time: datetime) -> int:
    return (time - datetime.fromtimestamp(0, UTC)) // _MS
