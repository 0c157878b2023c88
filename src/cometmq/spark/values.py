"""Reading option values: text in, checked values out. Each raises SettingsError that says what would do.

An option whose name begins with ``spark.rocketmq.`` is a session's (``session_options``): it holds where the
read or write has that option, and is given neither it nor an alternative to it.
"""

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from difflib import get_close_matches
from typing import Any, Final, TypeVar

from cometmq.errors import FormatError, IllegalName, SettingsError
from cometmq.filter import tag
from cometmq.format.layout import valid_group, valid_topic
from cometmq.format.properties import KEY_SEPARATOR
from cometmq.spark.schema import COLUMNS, check_together, no_column

T = TypeVar("T")

NUMBER_MAX: Final = 2**63 - 1
DIGITS_MAX: Final = 100
"""More than any number that is meant: Python takes no text of thousands of digits for one."""
BYTES_PER_PARTITION_MIN: Final = 4096
CLOCK_SLACK_MS: Final = 60_000
"""Store times are not always in order within a log, as clocks are set back."""
_WITH_UNIT: Final = re.compile(rf"([0-9]{{1,{DIGITS_MAX}}}) ?([a-z]*)")
_SIZES: Final = {
    "": 1,
    "b": 1,
    **{unit + byte: 1024**power for power, unit in enumerate("kmgt", 1) for byte in ("", "b")},
}
_SECONDS: Final = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400}
"""Units as in Spark's ``JavaUtils.java``, but for those below a second."""
SESSION_PREFIX: Final = "spark.rocketmq."
MODES: Final = ("PERMISSIVE", "FAILFAST")


class Given:
    """The options that were given, by their names as they are documented.

    Args:
        options: as Spark hands them over: names in any case.
        known: the names that may be given.
        alternatives: sets of names of which one can be given.
        not_here: known names that this kind of read does not have; a session's are passed over.

    Raises:
        SettingsError: a name is not known, other than a session's.
    """

    def __init__(
        self,
        options: Mapping[str, str],
        known: Collection[str],
        *,
        alternatives: Iterable[Collection[str]] = (),
        not_here: Collection[str] = (),
    ) -> None:
        own, of_session = split_session(options)
        self._texts = {known_name(name, known): text.strip() for name, text in own.items()}
        decided = {name for names in alternatives if self._texts.keys() & names for name in names}
        left = {name.lower(): name for name in known if name not in {*self._texts, *decided, *not_here}}
        self._texts |= {left[name]: text.strip() for name, text in of_session.items() if name in left}

    def __contains__(self, name: str) -> bool:
        return name in self._texts

    def __getitem__(self, name: str) -> str:
        return self._texts[name]

    def read(self, name: str, reader: Callable[[str, str], T], default: T) -> T:
        """Give an option's value, read by ``reader(name, text)``; ``default`` when it was not given."""
        return reader(name, self._texts[name]) if name in self._texts else default


def split_session(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the options that were given to a read, and a session's, in small letters and without prefix."""
    own, of_session = {}, {}
    for name, text in options.items():
        if name.lower().startswith(SESSION_PREFIX):
            of_session[name.lower().removeprefix(SESSION_PREFIX)] = text
        else:
            own[name] = text
    return own, of_session


def known_name(name: str, known: Collection[str]) -> str:
    """Give an option's name as it is documented."""
    by_lower = {option.lower(): option for option in known}
    if name.lower() in by_lower:
        return by_lower[name.lower()]
    near = get_close_matches(name.lower(), by_lower, n=1)
    hint = f"did you mean {by_lower[near[0]]}?" if near else f"use some of {', '.join(known)}"
    raise SettingsError(f"option {name} is not known: {hint}")


def names(name: str, text: str) -> tuple[str, ...]:
    """Read names separated by commas."""
    parts = tuple(part.strip() for part in text.split(",") if part.strip())
    if not parts:
        raise SettingsError(f"option {name} is empty: give one name or more, or leave it out for all")
    return parts


def topics(name: str, text: str) -> frozenset[str]:
    """Read topic names separated by commas."""
    try:
        return frozenset(valid_topic(topic) for topic in names(name, text))
    except IllegalName as error:
        raise SettingsError(f"option {name} {text}: {error}") from None


def group_name(name: str, text: str) -> str:
    """Read the name of a group."""
    try:
        return valid_group(text)
    except IllegalName as error:
        raise SettingsError(f"option {name}: {error}") from None


def columns(name: str, text: str) -> tuple[str, ...]:
    """Read columns separated by commas."""
    chosen = names(name, text)
    for column in chosen:
        if column not in COLUMNS:
            raise SettingsError(f"option {name}: {no_column(column)}")
        if chosen.count(column) > 1:
            raise SettingsError(f"option {name}: {column} is there more than once, name it once")
    check_together(chosen)
    return chosen


def tags(name: str, text: str) -> frozenset[str] | None:
    """Read a tag expression."""
    try:
        return tag.parse(text)
    except FormatError as error:
        raise SettingsError(f"option {name}: {error}") from None


def key(name: str, given: str) -> str:
    """Read a business key, as finders do."""
    if not given or KEY_SEPARATOR in given:
        raise SettingsError(f"option {name} {given!r}: give one key, which holds no blank")
    return given


def text(name: str, given: str) -> str:
    """Read what may be any text but an empty one."""
    if not given:
        raise SettingsError(f"option {name} is empty: give a value, or leave it out")
    return given


def number(name: str, text: str, least: int = 1) -> int:
    """Read a whole number that is not below ``least``."""
    is_number = text.isascii() and text.isdigit() and len(text) <= DIGITS_MAX
    if not is_number or not least <= int(text) <= NUMBER_MAX:
        raise SettingsError(f"option {name} {text}: give a whole number from {least} to {NUMBER_MAX}")
    return int(text)


def bytes_per_partition(name: str, text: str) -> int:
    """Read how many bytes one task reads."""
    return size(name, text, BYTES_PER_PARTITION_MIN)


def size(name: str, text: str, least: int = 1) -> int:
    """Read a number of bytes: a number, or one with a unit as Spark has it, ``64m``: a binary one."""
    found = _WITH_UNIT.fullmatch(text.lower())
    if found is None or found[2] not in _SIZES:
        raise SettingsError(f"option {name} {text}: give bytes, or a number with k, m, g or t: 64m")
    return number(name, str(int(found[1]) * _SIZES[found[2]]), least)


def seconds(name: str, text: str) -> int:
    """Read a time: a number of seconds, or one with a unit as Spark has it, ``15m``."""
    found = _WITH_UNIT.fullmatch(text.lower())
    if found is None or found[2] not in _SECONDS:
        raise SettingsError(f"option {name} {text}: give seconds, or a number with s, m, h or d: 15m")
    return number(name, str(int(found[1]) * _SECONDS[found[2]]))


def time_ms(name: str, text: str) -> int:
    """Read a time: ms since the epoch, or ISO 8601 with a zone."""
    if text.isascii() and text.isdigit():
        return number(name, text, 0)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise SettingsError(
            f"option {name} {text}: give ms since the epoch, or ISO 8601 with a zone, 2026-01-31T09:00:00Z"
        )
    return round(time.timestamp() * 1000)


def json_tree(name: str, text: str) -> Any:
    """Read JSON."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise SettingsError(f"option {name} {text}: no JSON: {error}") from None


def flag(name: str, text: str) -> bool:
    """Read true or false."""
    if text.lower() not in {"true", "false"}:
        raise SettingsError(f"option {name} {text}: give true or false")
    return text.lower() == "true"


def fails_on_damage(name: str, text: str) -> bool:
    """Read the mode: whether damage fails the read."""
    if text.upper() not in MODES:
        raise SettingsError(f"option {name} {text}: give {' or '.join(MODES)}")
    return text.upper() == "FAILFAST"


def check_times(given: Given, start: int | None, end: int | None) -> None:
    """Refuse a span of time that can hold no record."""
    if start is not None and end is not None and start >= end:
        raise SettingsError(
            f"option endingTimestamp {given['endingTimestamp']} is not after startingTimestamp "
            f"{given['startingTimestamp']}: no record could be between them"
        )
