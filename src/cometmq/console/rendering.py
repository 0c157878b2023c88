"""Jinja templates, and the filters that format numbers, sizes and times in them."""

import math
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape

from cometmq import __version__
from cometmq.admin.readable import duration_text, time_text
from cometmq.console.bodies import shortened

NOTHING: Final = "–"
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")


def environment() -> Environment:
    """Build the templates' environment. All texts are escaped: names and bodies come from producers."""
    found = Environment(
        loader=PackageLoader("cometmq.console"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters.update(
        count=count_text, rate=rate_text, size=size_text, time=time_markup, ago=ago_text,
        duration=duration_text, percent=percent_text, path=path_text, up=up_text, short=shortened,
    )  # fmt: skip
    found.globals.update(version=__version__, url=url_of)
    return found


def count_text(number: float | None) -> str:
    """Format a whole number with its thousands apart."""
    return NOTHING if number is None else f"{_float(number):,.0f}"


def rate_text(rate: float | None) -> str:
    """Format a rate, small ones with a decimal."""
    if rate is None:
        return NOTHING
    return f"{rate:,.1f}" if 0 < rate < 100 else f"{_float(rate):,.0f}"


def percent_text(ratio: float | None) -> str:
    """Format a ratio in percent."""
    return NOTHING if ratio is None else f"{_float(ratio):.0%}"


def size_text(size: float) -> str:
    """Format a number of bytes by the largest unit that fits."""
    size = _float(size)
    for unit in _UNITS[:-1]:
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:,.1f} {_UNITS[-1]}"


def time_markup(time_ms: int | None) -> str:
    """Format a time in UTC to the second; hovering shows it with milliseconds."""
    if not time_ms or time_ms < 0:
        return NOTHING
    whole = time_text(time_ms)
    short = f"{whole[:10]} {whole[11:19]}" if "T" in whole else whole
    return Markup('<time datetime="{0}" title="{0}">{1}</time>').format(whole, short)


def ago_text(time_ms: int | None, now_ms: int) -> str:
    """Format how long ago a time was."""
    return NOTHING if not time_ms or time_ms < 0 else duration_text(now_ms - time_ms)


def up_text(up: str | None) -> str:
    """Remove the zero parts of ``0 days, 2 hours, 0 minutes, 5 seconds``."""
    if up is None:
        return NOTHING
    return ", ".join(part for part in up.split(", ") if not part.startswith("0 ")) or "just started"


def _float(number: float) -> float:
    """Return a number that can be formatted: a broker may answer one of hundreds of digits."""
    try:
        return float(number)
    except OverflowError:
        return math.inf


def path_text(text: str) -> Markup:
    """Escape a name as a part of an address's path, slashes too."""
    return escape(quote(text, safe=""))


def url_of(path: str, query: Mapping[str, Any]) -> str:
    """Return an address with those parts of a query that are not empty."""
    kept = {name: value for name, value in query.items() if value not in ("", None, False)}
    return f"{path}?{urlencode(kept)}" if kept else path
