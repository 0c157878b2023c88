"""Finding messages in many stores at once, each by its index or its log, as ``cometmq.store.find`` does."""

import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import msgspec
from pyspark.sql import SparkSession

from cometmq.format.checksum import Crc
from cometmq.format.record import decode, encode
from cometmq.spark.jobs.stores import on_each
from cometmq.spark.jobs.watch import Progress
from cometmq.spark.remote import layer_of
from cometmq.store.directory import StoreDirectory
from cometmq.store.find import Found, Wanted
from cometmq.store.find import find as find_in_store

LIMIT = 32


class Hits(NamedTuple):
    """What was found in one store, oldest first; or why it could not be searched."""

    store: Path
    found: list[Found]
    error: str


def find(
    spark: SparkSession,
    stores: Sequence[Path | str],
    wanted: Wanted,
    *,
    limit: int = LIMIT,
    use_index: bool = True,
    progress: Progress | None = None,
) -> list[Hits]:
    """Find messages, a task for each store; at most ``limit`` in each. Gives the hits in the stores' order.

    Args:
        use_index: whether to trust the indexes; without, the whole logs are read.
    """

    def work(path: Path) -> Iterator[bytes]:
        with StoreDirectory(path, layer=layer_of(path)) as store:
            for found in islice(find_in_store(store, wanted, use_index=use_index), min(limit, sys.maxsize)):
                yield msgspec.msgpack.encode((encode(found.record), found.damage))

    outcomes = on_each(spark, "find", stores, work, progress)
    return [Hits(store, [_found(answer) for answer in answers], error) for store, answers, error in outcomes]


def _found(answer: bytes) -> Found:
    data, damage = msgspec.msgpack.decode(answer, type=tuple[bytes, str])
    return Found(decode(data, crc=Crc.NONE), damage)
