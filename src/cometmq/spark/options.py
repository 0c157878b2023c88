"""What can be given to ``spark.read.format("rocketmq").option(…)``, and what is refused.

=====================  =========================================================================
option                 meaning
=====================  =========================================================================
path                   a store directory, its ``commitlog`` folder, or one CommitLog file; what
                       ``load()`` is given. Each executor must see it at the same place
topic                  topics to read, separated by commas; all when not given
columns                columns to make, in this order, separated by commas; all when not given.
                       Spark does not tell a Python source which columns a query uses: leaving out
                       ``body`` and ``properties`` here is what saves time
limit                  at most so many records, the first ones of the log; they are read in one task
startingTimestamp      store time of the earliest record to give: ms since the epoch, or ISO 8601
                       with a zone, ``2026-01-31T09:00:00+08:00``
endingTimestamp        store time before which records are given
maxBytesPerPartition   bytes of the log that one task reads; 134,217,728 (128 MiB) when not given
mode                   PERMISSIVE passes over damage and logs it; FAILFAST fails, naming the place
=====================  =========================================================================

As in all of Spark, names and the mode are read in any case.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Final, NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit

from cometmq.errors import IllegalName, SettingsError
from cometmq.format.layout import valid_topic
from cometmq.spark.schema import COLUMNS

T = TypeVar("T")

BYTES_PER_PARTITION: Final = 128 * 1024 * 1024
"""As for Spark's own file sources; a task costs a tenth of a second besides, in which so much is read."""
BYTES_PER_PARTITION_MIN: Final = 4096
NUMBER_MAX: Final = 2**63 - 1
MODES: Final = ("PERMISSIVE", "FAILFAST")
OPTIONS: Final = (
    "path",
    "topic",
    "columns",
    "limit",
    "startingTimestamp",
    "endingTimestamp",
    "maxBytesPerPartition",
    "mode",
)


class ReadOptions(NamedTuple):
    """The options of one read, checked.

    Attributes:
        topics: None for all.
        columns: None for all.
        starting_time: ms since the epoch, as is ``ending_time``, which is not included.
    """

    path: Path
    topics: frozenset[str] | None = None
    columns: tuple[str, ...] | None = None
    limit: int | None = None
    starting_time: int | None = None
    ending_time: int | None = None
    bytes_per_partition: int = BYTES_PER_PARTITION
    fail_on_damage: bool = False


def parse(options: Mapping[str, str]) -> ReadOptions:
    """Check the options of a read. Raises SettingsError that names option, value, limit and remedy."""
    given = {_known_name(name): text.strip() for name, text in options.items()}
    if not given.get("path"):
        raise SettingsError("option path is missing: give the store directory to load()")

    def value(name: str, read: Callable[[str, str], T], default: T) -> T:
        return read(name, given[name]) if name in given else default

    parsed = ReadOptions(
        path=_path("path", given["path"]),
        topics=value("topic", _topics, None),
        columns=value("columns", _columns, None),
        limit=value("limit", _limit, None),
        starting_time=value("startingTimestamp", _time, None),
        ending_time=value("endingTimestamp", _time, None),
        bytes_per_partition=value("maxBytesPerPartition", _bytes_per_partition, BYTES_PER_PARTITION),
        fail_on_damage=value("mode", _fail_on_damage, False),
    )
    start, end = parsed.starting_time, parsed.ending_time
    if start is not None and end is not None and start >= end:
        raise SettingsError(
            f"option endingTimestamp {given['endingTimestamp']} is not after startingTimestamp "
            f"{given['startingTimestamp']}: no record could be between them"
        )
    return parsed


def _known_name(name: str) -> str:
    known = {option.lower(): option for option in OPTIONS}
    if name.lower() in known:
        return known[name.lower()]
    near = get_close_matches(name.lower(), known, n=1)
    hint = f"did you mean {known[near[0]]}?" if near else f"use some of {', '.join(OPTIONS)}"
    raise SettingsError(f"option {name} is not known: {hint}")


def _path(name: str, text: str) -> Path:
    scheme = urlsplit(text).scheme
    if scheme == "file":
        return Path(unquote(urlsplit(text).path))
    if scheme:
        raise SettingsError(
            f"option {name} {text}: no {scheme} address can be read, mount it and give its folder"
        )
    return Path(text)


def _names(name: str, text: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    if not names:
        raise SettingsError(f"option {name} is empty: give one name or more, or leave it out for all")
    return names


def _topics(name: str, text: str) -> frozenset[str]:
    try:
        return frozenset(valid_topic(topic) for topic in _names(name, text))
    except IllegalName as error:
        raise SettingsError(f"option {name} {text}: {error}") from None


def _columns(name: str, text: str) -> tuple[str, ...]:
    columns = _names(name, text)
    for column in columns:
        if column not in COLUMNS:
            raise SettingsError(
                f"option {name}: there is no column {column}, use some of {', '.join(COLUMNS)}"
            )
        if columns.count(column) > 1:
            raise SettingsError(f"option {name}: {column} is there more than once, name it once")
    return columns


def _number(name: str, text: str, least: int) -> int:
    if not text.isascii() or not text.isdigit() or not least <= int(text) <= NUMBER_MAX:
        raise SettingsError(f"option {name} {text}: give a whole number from {least} to {NUMBER_MAX}")
    return int(text)


def _limit(name: str, text: str) -> int:
    return _number(name, text, 1)


def _bytes_per_partition(name: str, text: str) -> int:
    return _number(name, text, BYTES_PER_PARTITION_MIN)


def _time(name: str, text: str) -> int:
    if text.isascii() and text.isdigit():
        return _number(name, text, 0)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise SettingsError(
            f"option {name} {text}: give ms since the epoch, or ISO 8601 with a zone, 2026-01-31T09:00:00Z"
        )
    return round(time.timestamp() * 1000)


def _fail_on_damage(name: str, text: str) -> bool:
    if text.upper() not in MODES:
        raise SettingsError(f"option {name} {text}: give {' or '.join(MODES)}")
    return text.upper() == "FAILFAST"
