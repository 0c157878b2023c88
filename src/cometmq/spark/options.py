"""What can be given to ``spark.read.format("rocketmq").option(…)``, and what is refused.

=====================  =========================================================================
option                 meaning
=====================  =========================================================================
path                   a store directory, its ``commitlog`` folder, or one CommitLog file; what
                       ``load()`` is given. A pattern, ``broker-*/store`` or ``{a,b}/store``, stands
                       for all that match it (see ``patterns``). Each executor must see them at the
                       same place, or reach them through fsspec: ``s3://bucket/store`` (see
                       ``remote``)
paths                  several of them, as JSON: what ``load([…])`` is given
topic                  topics to read, separated by commas; all when not given
tags                   records with one of these tags: ``TagA || TagB``
key                    records that have this business key
columns                columns to make, in this order, separated by commas; all when not given.
                       Spark does not tell a Python source which columns a query uses: leaving out
                       ``body`` and ``properties`` here is what saves time
decompress             true (default) gives bodies as their producers had them; false as they are
                       stored: ``sys_flag`` says how they are compressed
broker                 name of the broker whose store it is, for the column ``broker``; null when
                       not given, as no file tells it
limit                  at most so many records, the first ones of the logs; they are read in one task
startingTimestamp      store time of the earliest record to give: ms since the epoch, or ISO 8601
                       with a zone, ``2026-01-31T09:00:00+08:00``. Parts of the log that begin and
                       end a minute or more outside of the times are passed over
endingTimestamp        store time before which records are given
maxBytesPerPartition   bytes of the log that one task reads, ``64m``; 128 MiB when not given
mode                   PERMISSIVE passes over damage and logs it; FAILFAST fails, naming the place
=====================  =========================================================================

As in all of Spark, names and the mode are read in any case. WHERE clauses choose records as options do, see
``filters``.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from cometmq.errors import SettingsError
from cometmq.spark import values
from cometmq.spark.files.remote import path_of
from cometmq.spark.values import Given

BYTES_PER_PARTITION: Final = 128 * 1024 * 1024
"""As for Spark's own file sources; a task costs a tenth of a second besides, in which so much is read."""
OPTIONS: Final = (
    "path",
    "paths",
    "topic",
    "tags",
    "key",
    "columns",
    "decompress",
    "broker",
    "limit",
    "startingTimestamp",
    "endingTimestamp",
    "maxBytesPerPartition",
    "mode",
)


class ReadOptions(NamedTuple):
    """The options of one read, checked.

    Attributes:
        topics: None for all, as are ``tags`` and ``key``.
        columns: None for all.
        starting_time: ms since the epoch, as is ``ending_time``, which is not included.
    """

    paths: tuple[Path, ...]
    topics: frozenset[str] | None = None
    columns: tuple[str, ...] | None = None
    limit: int | None = None
    starting_time: int | None = None
    ending_time: int | None = None
    bytes_per_partition: int = BYTES_PER_PARTITION
    broker: str | None = None
    decompress: bool = True
    fail_on_damage: bool = False
    tags: frozenset[str] | None = None
    key: str | None = None


def parse(options: Mapping[str, str]) -> ReadOptions:
    """Check the options of a read. Raises SettingsError that names option, value, limit and remedy."""
    given = Given(options, OPTIONS)
    none: tuple[Path, ...] = ()
    paths = given.read("path", _path, none) + given.read("paths", _paths, none)
    if not paths:
        raise SettingsError("option path is missing: give the store directory to load()")
    parsed = ReadOptions(
        paths=paths,
        topics=given.read("topic", values.topics, None),
        columns=given.read("columns", values.columns, None),
        limit=given.read("limit", values.number, None),
        starting_time=given.read("startingTimestamp", values.time_ms, None),
        ending_time=given.read("endingTimestamp", values.time_ms, None),
        bytes_per_partition=given.read(
            "maxBytesPerPartition", values.bytes_per_partition, BYTES_PER_PARTITION
        ),
        broker=given.read("broker", values.text, None),
        decompress=given.read("decompress", values.flag, True),
        fail_on_damage=given.read("mode", values.fails_on_damage, False),
        tags=given.read("tags", values.tags, None),
        key=given.read("key", values.key, None),
    )
    values.check_times(given, parsed.starting_time, parsed.ending_time)
    return parsed


def _path(_: str, text: str) -> tuple[Path, ...]:
    return (path_of(text),) if text else ()


def _paths(name: str, text: str) -> tuple[Path, ...]:
    try:
        found = msgspec.json.decode(text, type=list[str])
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise SettingsError(f'option {name} {text}: write ["a/store", "b/store"]: {error}') from None
    return tuple(path_of(path) for path in found if path)
