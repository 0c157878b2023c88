"""Format the times, durations, rates, sizes and names of a report page."""

import re
from datetime import datetime, timedelta
from typing import Final

from markupsafe import Markup, escape

from cometmq.spark.jobs.report.buckets import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS

EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001  all times here are UTC, without a zone
UNITS: Final = {"d": DAY_MS, "h": HOUR_MS, "min": MINUTE_MS, "s": SECOND_MS, "ms": 1}
_SEPARATOR: Final = re.compile(r"(?<=[\W_])(?=.)", re.DOTALL)


def time_text(time_ms: int, each_ms: int = SECOND_MS) -> Markup:
    """Format a time in UTC as HTML without line breaks, as precisely as multiples of ``each_ms`` need."""
    if each_ms % SECOND_MS:
        precision = "milliseconds"
    elif each_ms % MINUTE_MS:
        precision = "seconds"
    else:
        precision = "minutes"
    time = EPOCH + timedelta(milliseconds=time_ms)
    return Markup("<time>{}</time>").format(time.isoformat(" ", precision))


def counted(count: int, noun: str) -> str:
    """Format a count with its noun: ``1 topic``, ``1,234 topics``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def span_text(span_ms: int) -> str:
    """Format a duration in its two largest units: ``3 d 4 h``, ``5 min``, ``200 ms``."""
    parts = []
    for unit, length_ms in UNITS.items():
        count, span_ms = divmod(span_ms, length_ms)
        if count:
            parts.append(f"{count:,} {unit}")
        if len(parts) == 2 or (parts and not count):
            break
    return " ".join(parts) or "0 ms"


def rate_text(count: float, span_ms: int) -> str:
    """Format a rate by the shortest unit of time in which it is 1 or more: ``1,234/s``, ``3.2/h``."""
    for unit in ("s", "min", "h"):
        rate = count * UNITS[unit] / span_ms
        if rate >= 1:
            return f"{_short(rate)}/{unit}"
    return f"{_short(count * DAY_MS / span_ms)}/d"


def size_text(size: float) -> str:
    """Format a number of bytes in binary units: ``1.5 MiB``."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            return f"{_short(size)} {unit}"
        size /= 1024
    return f"{size:,.0f} PiB"


def breakable(name: str) -> Markup:
    """Format a name as HTML with line breaks allowed behind separators only."""
    return Markup("<wbr>").join(escape(part) for part in _SEPARATOR.split(name))


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 or number == int(number) else f"{number:,.1f}"
