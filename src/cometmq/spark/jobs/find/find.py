"""Find messages in many stores of any size, by id, key, time, topic and tag.

A task for each store looks messages up by id, time and index. The rest of the logs is scanned by the piece,
the oldest pieces first and more of them each time, until the limit of messages is reached.
"""

import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from pyspark.sql import SparkSession

from cometmq import kernels
from cometmq.format.checksum import Crc
from cometmq.format.record import decode
from cometmq.spark.files.splits import splits, within
from cometmq.spark.jobs.find.find_parts import HITS, LookedUp, WalkedPart, look_up, walk
from cometmq.spark.jobs.parts import on_parts
from cometmq.spark.jobs.stores import on_each
from cometmq.spark.jobs.watch import Progress, watched
from cometmq.spark.options import BYTES_PER_PARTITION
from cometmq.store.offline.find import FindQuery, Found

LIMIT: Final = 32
MORE: Final = 4
"""Factor by which the number of pieces grows each time."""
PIECES_MIN: Final = 8
FIRST_SHARE: Final = 64
"""The first pieces that are scanned of a store: at least 8, or one in 64."""


class Hits(NamedTuple):
    """The messages found in one store, oldest first; or why it could not be searched."""

    store: Path
    found: list[Found]
    error: str


def find(
    spark: SparkSession,
    stores: Sequence[Path | str],
    wanted: FindQuery,
    *,
    limit: int = LIMIT,
    use_index: bool = True,
    progress: Progress | None = None,
    bytes_per_task: int = BYTES_PER_PARTITION,
) -> list[Hits]:
    """Find the oldest messages in each store, at most ``limit``; return the hits in the stores' order.

    Args:
        use_index: whether to trust the indexes; otherwise the whole logs are read.
        bytes_per_task: bytes of a log that one task reads.

    Raises SettingsError if there is no store.
    """

    def work(root: Path) -> Iterator[bytes]:
        yield pickle.dumps(look_up(root, wanted, limit, use_index=use_index))

    kernels.load_if_possible()  # once, so that many workers find them in the cache
    outcomes = on_each(spark, "look up", stores, work, progress)
    searches = [
        _StoreSearch(number, answers, error, wanted, limit, bytes_per_task)
        for number, (_, answers, error) in enumerate(outcomes)
    ]
    at_once = max(PIECES_MIN, *(search.pieces // FIRST_SHARE for search in searches))
    with watched(spark, "find", progress):
        while parts := [part for search in searches for part in search.next_parts(at_once)]:
            for number, offset, record, damage, error in on_parts(spark, parts, walk, HITS).collect():
                searches[number].add(offset, record, damage, error)
            at_once *= MORE
    return [
        Hits(store, search.found(), search.error)
        for (store, _, _), search in zip(outcomes, searches, strict=True)
    ]


class _StoreSearch:
    """The search in one store.

    Attributes:
        error: why it cannot be searched; empty if it can.
    """

    def __init__(
        self,
        number: int,
        answers: list[bytes],
        error: str,
        wanted: FindQuery,
        limit: int,
        bytes_per_task: int,
    ) -> None:
        self.error = error
        self._limit = limit
        self._hits: dict[int, Found] = {}
        self._parts: list[WalkedPart] = []
        if error:
            return
        looked_up: LookedUp = pickle.loads(answers[0])  # noqa: S301  a task of this job made it
        self._hits |= looked_up.found
        for begin, end in looked_up.ranges:
            for split in splits(looked_up.files, bytes_per_task):
                if pieces := within(split, begin, end):
                    crc, levels = looked_up.crc, looked_up.delay_levels
                    self._parts.append(WalkedPart(number, pieces, wanted, crc, levels, limit))

    @property
    def pieces(self) -> int:
        """How many pieces are left to scan."""
        return len(self._parts)

    def next_parts(self, count: int) -> list[WalkedPart]:
        """Return the next parts of the log to scan; none once there are ``limit`` messages before them."""
        if self.error or not self._parts:
            return []
        piece = self._parts[0].pieces[0]
        before = sum(offset < piece.file.base_offset + piece.start for offset in self._hits)
        if before >= self._limit:
            return []
        chosen, self._parts = self._parts[:count], self._parts[count:]
        return chosen

    def add(self, offset: int, record: bytes, damage: str, error: str | None) -> None:
        """Add a message found in a part, or the error of the part."""
        if error:
            self.error = error
        else:
            self._hits[offset] = Found(decode(bytes(record), crc=Crc.NONE), damage)

    def found(self) -> list[Found]:
        """Return the messages, oldest first."""
        if self.error:
            return []
        return [found for _, found in sorted(self._hits.items())[: min(self._limit, len(self._hits))]]
