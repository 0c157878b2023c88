"""The options of ``spark.read.format("rocketmq")`` for files.

=====================  =========================================================================
option                 meaning
=====================  =========================================================================
path                   a store directory, its ``commitlog`` folder, or one CommitLog file: the
                       argument of ``load()``. A pattern, ``broker-*/store`` or ``{a,b}/store``,
                       stands for all that match it (see ``patterns``). Each executor must see
                       them at the same path, or reach them through fsspec: ``s3://bucket/store``
                       (see ``remote``)
paths                  several of them, as JSON: the argument of ``load([…])``
topic                  topics to read, separated by commas; all when not given
tags                   records with one of these tags: ``TagA || TagB``
key                    records that have this business key
columns                columns to read, in this order, separated by commas; all when not given.
                       Spark does not pass a Python source the columns that a query uses: leave
                       out ``body`` and ``properties`` here to save time
decompress             true (default) decompresses bodies; false leaves them as stored:
                       ``sys_flag`` says how they are compressed
broker                 name of the broker whose store it is, for the column ``broker``; null when
                       not given, as it is in no file
limit                  at most so many records, the first ones of the logs; they are read in one task
startingTimestamp      store time of the earliest record to read: ms since the epoch, or ISO 8601
                       with a zone, ``2026-01-31T09:00:00+08:00``. Parts of the log that begin and
                       end a minute or more outside of the times are skipped
endingTimestamp        store time before which records are read
maxBytesPerPartition   bytes of the log that one task reads, ``64m``; 128 MiB when not given
mode                   PERMISSIVE logs damage and skips it; FAILFAST fails, naming the place
=====================  =========================================================================

As in all of Spark, names and the mode may be in any case. WHERE clauses choose records as options do (see
``filters``).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from cometmq.errors import SettingsError
from cometmq.spark import values
from cometmq.spark.files.remote import path_of
from cometmq.spark.values import OptionTexts

BYTES_PER_PARTITION: Final = 128 * 1024 * 1024
"""As for Spark's own file sources: reading so much takes about as long as starting a task, 0.1 s."""
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
    texts = OptionTexts(options, OPTIONS)
    none: tuple[Path, ...] = ()
    paths = texts.read("path", _path, none) + texts.read("paths", _paths, none)
    if not paths:
        raise SettingsError("option path is missing: give the store directory to load()")
    parsed = ReadOptions(
        paths=paths,
        topics=texts.read("topic", values.topics, None),
        columns=texts.read("columns", values.columns, None),
        limit=texts.read("limit", values.number, None),
        starting_time=texts.read("startingTimestamp", values.time_ms, None),
        ending_time=texts.read("endingTimestamp", values.time_ms, None),
        bytes_per_partition=texts.read(
            "maxBytesPerPartition", values.bytes_per_partition, BYTES_PER_PARTITION
        ),
        broker=texts.read("broker", values.text, None),
        decompress=texts.read("decompress", values.flag, True),
        fail_on_damage=texts.read("mode", values.fails_on_damage, False),
        tags=texts.read("tags", values.tags, None),
        key=texts.read("key", values.key, None),
    )
    values.check_times(texts, parsed.starting_time, parsed.ending_time)
    return parsed


def _path(_: str, text: str) -> tuple[Path, ...]:
    return (path_of(text),) if text else ()


def _paths(name: str, text: str) -> tuple[Path, ...]:
    try:
        found = msgspec.json.decode(text, type=list[str])
    except (msgspec.DecodeError, RecursionError) as error:
        raise SettingsError(f'option {name} {text:.1000}: write ["a/store", "b/store"]: {error}') from None
    return tuple(path_of(path) for path in found if path)
