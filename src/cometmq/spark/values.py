"""Parse the values of options. Each function raises SettingsError that names option, value and remedy.

An option whose name begins with ``spark.rocketmq.`` is a session's (``session_options``): it applies if the
read or write has that option, and neither it nor an alternative to it is set.

Spark adds names of its own to the options that it passes. They are ignored, unless an option has the name:

=============================================  ===============================================
name                                           comes from
=============================================  ===============================================
queryName                                      ``writeStream.queryName(…)``; a declarative
                                               pipeline names each of its queries
checkpointLocation                             the option of ``writeStream``
outputMode                                     ``writeStream.outputMode(…)``
asyncProgressTrackingEnabled                   the option of ``writeStream``
asyncProgressTrackingCheckpointIntervalMs      as above
asyncProgressTrackingOverrideSinkSupportCheck  as above
=============================================  ===============================================

and ``provider``, among others, for a table in its catalog (``CREATE TABLE … USING rocketmq``). Such a table
is refused: when it is read or written, Spark 4.3 passes none of its options to a source in Python.
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
"""More than any sensible number has: Python refuses to parse thousands of digits."""
BYTES_PER_PARTITION_MIN: Final = 4096
CLOCK_SLACK_MS: Final = 60_000
"""How far store times may be out of order within a log, as clocks are set back."""
_WITH_UNIT: Final = re.compile(rf"([0-9]{{1,{DIGITS_MAX}}}) ?([a-z]*)")
_SIZES: Final = {
    "": 1,
    "b": 1,
    **{unit + byte: 1024**power for power, unit in enumerate("kmgt", 1) for byte in ("", "b")},
}
_SECONDS: Final = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400}
"""Units as in Spark's ``JavaUtils.java``, without those below a second."""
SESSION_PREFIX: Final = "spark.rocketmq."
SPARKS_OWN: Final = (
    "queryName",
    "checkpointLocation",
    "outputMode",
    "asyncProgressTrackingEnabled",
    "asyncProgressTrackingCheckpointIntervalMs",
    "asyncProgressTrackingOverrideSinkSupportCheck",
)
"""What Spark adds to the options of a write."""
PROVIDER: Final = "provider"
"""Spark's name for the source of a table in its catalog."""
MODES: Final = ("PERMISSIVE", "FAILFAST")


class OptionTexts:
    """The texts of the options that are set, by their documented names.

    Args:
        options: as Spark passes them: names in any case.
        known: the documented names.
        alternatives: sets of names of which one can be set.
        not_here: known names that this kind of read does not have; a session's are ignored.

    Raises:
        SettingsError: a name is not known, and is not a session's.
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
        there = {name.lower() for name in known}
        sparks = {name.lower() for name in SPARKS_OWN} - there
        _refuse_table(own, there)
        self._texts = {
            known_name(name, known): text.strip() for name, text in own.items() if name.lower() not in sparks
        }
        excluded = {name for names in alternatives if self._texts.keys() & names for name in names}
        left = {name.lower(): name for name in known if name not in {*self._texts, *excluded, *not_here}}
        self._texts |= {left[name]: text.strip() for name, text in of_session.items() if name in left}

    def __contains__(self, name: str) -> bool:
        return name in self._texts

    def __getitem__(self, name: str) -> str:
        return self._texts[name]

    def read(self, name: str, reader: Callable[[str, str], T], default: T) -> T:
        """Return an option's value, parsed by ``reader(name, text)``; ``default`` if it is not set."""
        return reader(name, self._texts[name]) if name in self._texts else default


def split_session(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Split options into a read's own and a session's; the latter in small letters, without prefix."""
    own, of_session = {}, {}
    for name, text in options.items():
        if name.lower().startswith(SESSION_PREFIX):
            of_session[name.lower().removeprefix(SESSION_PREFIX)] = text
        else:
            own[name] = text
    return own, of_session


def _refuse_table(options: Mapping[str, str], known: Collection[str]) -> None:
    """Raise SettingsError if options are those of a table in Spark's catalog."""
    if PROVIDER not in known and any(name.lower() == PROVIDER for name in options):
        raise SettingsError(
            "a table in Spark's catalog could be neither read nor written, as Spark passes none of its "
            "options to a source in Python: use CREATE TEMPORARY VIEW … USING rocketmq OPTIONS (…), or "
            "load() and createOrReplaceTempView()"
        )


def known_name(name: str, known: Collection[str]) -> str:
    """Return the documented name of an option. Raises SettingsError if there is none."""
    by_lower = {option.lower(): option for option in known}
    if name.lower() in by_lower:
        return by_lower[name.lower()]
    near = get_close_matches(name.lower(), by_lower, n=1)
    hint = f"did you mean {by_lower[near[0]]}?" if near else f"use some of {', '.join(known)}"
    raise SettingsError(f"option {name} is not known: {hint}")


def names(name: str, text: str) -> tuple[str, ...]:
    """Parse names separated by commas."""
    parts = tuple(part.strip() for part in text.split(",") if part.strip())
    if not parts:
        raise SettingsError(f"option {name} is empty: give one name or more, or leave it out for all")
    return parts


def topics(name: str, text: str) -> frozenset[str]:
    """Parse topic names separated by commas."""
    try:
        return frozenset(valid_topic(topic) for topic in names(name, text))
    except IllegalName as error:
        raise SettingsError(f"option {name} {text}: {error}") from None


def group_name(name: str, text: str) -> str:
    """Parse the name of a consumer or producer group."""
    try:
        return valid_group(text)
    except IllegalName as error:
        raise SettingsError(f"option {name}: {error}") from None


def columns(name: str, text: str) -> tuple[str, ...]:
    """Parse columns separated by commas, which may be in any case, as names are in Spark."""
    chosen = tuple(column.lower() for column in names(name, text))
    for column in chosen:
        if column not in COLUMNS:
            raise SettingsError(f"option {name}: {no_column(column)}")
        if chosen.count(column) > 1:
            raise SettingsError(f"option {name}: {column} is there more than once, name it once")
    check_together(chosen)
    return chosen


def column(name: str, value: str) -> str:
    """Parse the name of a column, in any case; returns it in small letters."""
    return text(name, value).lower()


def tags(name: str, text: str) -> frozenset[str] | None:
    """Parse a tag expression; None for all tags."""
    try:
        return tag.parse(text)
    except FormatError as error:
        raise SettingsError(f"option {name}: {error}") from None


def key(name: str, value: str) -> str:
    """Parse a business key, as the commands that find messages do."""
    if not value or KEY_SEPARATOR in value:
        raise SettingsError(f"option {name} {value!r}: give one key, which holds no blank")
    return value


def text(name: str, value: str) -> str:
    """Parse a text that is not empty."""
    if not value:
        raise SettingsError(f"option {name} is empty: give a value, or leave it out")
    return value


def number(name: str, text: str, least: int = 1) -> int:
    """Parse a whole number from ``least`` to ``NUMBER_MAX``."""
    is_number = text.isascii() and text.isdigit() and len(text) <= DIGITS_MAX
    if not is_number or not least <= int(text) <= NUMBER_MAX:
        raise SettingsError(f"option {name} {text}: give a whole number from {least} to {NUMBER_MAX}")
    return int(text)


def bytes_per_partition(name: str, text: str) -> int:
    """Parse the number of bytes that one task reads."""
    return size(name, text, BYTES_PER_PARTITION_MIN)


def size(name: str, text: str, least: int = 1) -> int:
    """Parse a number of bytes, plain or with one of Spark's binary units, ``64m``."""
    found = _WITH_UNIT.fullmatch(text.lower())
    if found is None or found[2] not in _SIZES:
        raise SettingsError(f"option {name} {text}: give bytes, or a number with k, m, g or t: 64m")
    return number(name, str(int(found[1]) * _SIZES[found[2]]), least)


def seconds(name: str, text: str) -> int:
    """Parse a duration to seconds, plain or with one of Spark's units, ``15m``."""
    found = _WITH_UNIT.fullmatch(text.lower())
    if found is None or found[2] not in _SECONDS:
        raise SettingsError(f"option {name} {text}: give seconds, or a number with s, m, h or d: 15m")
    return number(name, str(int(found[1]) * _SECONDS[found[2]]))


def time_ms(name: str, text: str) -> int:
    """Parse a time to ms since the epoch: such a number, or ISO 8601 with a zone."""
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
    """Parse JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"option {name} {text:.1000}: no JSON: {error}") from None


def flag(name: str, text: str) -> bool:
    """Parse true or false."""
    if text.lower() not in {"true", "false"}:
        raise SettingsError(f"option {name} {text}: give true or false")
    return text.lower() == "true"


def fails_on_damage(name: str, text: str) -> bool:
    """Parse the mode: return whether damage fails the read."""
    if text.upper() not in MODES:
        raise SettingsError(f"option {name} {text}: give {' or '.join(MODES)}")
    return text.upper() == "FAILFAST"


def check_times(texts: OptionTexts, start: int | None, end: int | None) -> None:
    """Raise SettingsError if the time range is empty."""
    if start is not None and end is not None and start >= end:
        raise SettingsError(
            f"option endingTimestamp {texts['endingTimestamp']} is not after startingTimestamp "
            f"{texts['startingTimestamp']}: no record could be between them"
        )
