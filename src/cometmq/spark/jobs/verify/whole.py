"""Check whole stores, step by step.

::

    look     a task for each store: names, sizes, small tables
    claims   tasks for its queues ──► up to where the log must go             the last files of each queue
    read     pieces of the log, index files ──► rows of what to compare       each file once, by the window
    queues   rows by queue, compared with the queue's files                   each file once
    index    rows by file of the log: keys are compared with index entries
    judge    a task for each store: the reasons of damage, the log's end      some bytes

The rows of the logs, a few bytes for each record and each key, stay on Spark's disks until the end. A store
that cannot be read does not affect the others.
"""

import pickle
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Final

import msgspec
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from cometmq import kernels
from cometmq.format.delay_level import DelayLevels
from cometmq.format.index import FIRST_ENTRY
from cometmq.spark.files.remote import path_of
from cometmq.spark.files.splits import splits
from cometmq.spark.jobs.parts import on_parts, shuffle_tasks
from cometmq.spark.jobs.piece_scan import PieceSeen
from cometmq.spark.jobs.rebuild.entries import Rules, topic_bytes
from cometmq.spark.jobs.stores import on_each
from cometmq.spark.jobs.verify.checks import (
    LISTED,
    OUTCOMES,
    Check,
    CheckOutcome,
    StoreSeen,
    keys_check,
    queues_check,
    store_seen,
)
from cometmq.spark.jobs.verify.index import IndexSeen, index_parts
from cometmq.spark.jobs.verify.look import (
    CLAIMS,
    Claims,
    FinalCheck,
    StoreListing,
    check_places,
    claims_batch,
    list_store,
)
from cometmq.spark.jobs.verify.rows import (
    ENTRIES,
    ERROR,
    INDEX,
    KEYS,
    PIECE,
    QUEUE,
    SCHEMA,
    LogPart,
    Rows,
    read_rows,
)
from cometmq.spark.jobs.watch import Progress, watched
from cometmq.spark.options import BYTES_PER_PARTITION
from cometmq.store.files.finding import Severity
from cometmq.store.settings import StoreSettings
from cometmq.store.verify import State
from cometmq.store.verify.findings import Findings, Reported
from cometmq.store.verify.keys import NONE_MISSING, Missing
from cometmq.store.verify.whole import state_of

UNREADABLE = "unreadable"
QUEUES_PER_TASK: Final = 256
LISTED_FIRST, EXPLAINED, CHECKED = range(3)
"""The order of findings, of which few are kept for each file: first those that explain others."""


class FindingRow(msgspec.Struct, frozen=True):
    """A finding in a store: see ``cometmq.store.files.finding.Finding``."""

    severity: str
    path: str
    position: int | None
    size: int | None
    what: str
    remedy: str


class StoreCheck(msgspec.Struct, frozen=True):
    """The result of the check of one store.

    Attributes:
        state: ``sound``, ``needs recovery``, ``damaged`` or, with the reason in ``error``, ``unreadable``.
        findings: by file and position.
    """

    store: str
    state: str
    messages: int = 0
    bytes: int = 0
    queues: int = 0
    index_entries: int = 0
    findings: list[FindingRow] = []
    error: str = ""

    @property
    def is_bad(self) -> bool:
        """Whether bytes are lost or wrong, or the store cannot be read."""
        return self.state in (State.DAMAGED.value, UNREADABLE)

    @property
    def damages(self) -> int:
        """The number of findings that are damage."""
        return sum(place.severity == Severity.DAMAGE.value for place in self.findings)


def verify(
    spark: SparkSession,
    stores: Sequence[Path | str],
    settings: StoreSettings | None = None,
    *,
    progress: Progress | None = None,
    bytes_per_task: int = BYTES_PER_PARTITION,
) -> list[StoreCheck]:
    """Check stores, without writing; return the results in their order.

    Args:
        settings: of the brokers that wrote them; by default the sizes are those of each store's files.
        bytes_per_task: bytes of a log that one task reads.

    Raises SettingsError if there is no store.
    """
    return _Check(spark, stores, progress).run(settings, bytes_per_task)


class _Check:
    """One check of some stores, each identified by its number."""

    def __init__(self, spark: SparkSession, stores: Sequence[Path | str], progress: Progress | None) -> None:
        self._spark = spark
        self._stores = [path_of(store) for store in stores]
        self._progress = progress
        self._errors: dict[int, str] = {}
        self._listings: dict[int, StoreListing] = {}
        self._reported: defaultdict[int, list[tuple[int, Reported]]] = defaultdict(list)

    def run(self, settings: StoreSettings | None, bytes_per_task: int) -> list[StoreCheck]:
        """Run all steps; return the result for each store."""
        kernels.load_if_possible()  # once, so that many workers find them in the cache
        self._list_stores(settings)
        claimed = self._claimed()
        rows = self._rows(claimed, bytes_per_task).persist(StorageLevel.DISK_ONLY)
        try:
            seen = self._seen(rows, claimed)
            self._check_queues(rows, seen)
            missing = self._check_keys(rows, seen)
        finally:
            rows.unpersist()
        self._check_places(seen, claimed, missing)
        return [self._checked(number, seen.get(number)) for number in range(len(self._stores))]

    def _list_stores(self, settings: StoreSettings | None) -> None:
        def work(root: Path) -> Iterator[bytes]:
            yield pickle.dumps(list_store(root, settings))

        outcomes = on_each(self._spark, "look", self._stores, work, self._progress)
        for number, (_, answers, error) in enumerate(outcomes):
            if error:
                self._errors[number] = error
            else:
                self._listings[number] = pickle.loads(answers[0])  # noqa: S301  a task of this job made it
                self._report(number, LISTED_FIRST, self._listings[number].reported)

    def _claimed(self) -> dict[int, int]:
        """Return by store the CommitLog offset behind the last record in any queue."""
        parts = [
            Claims(
                number, self._root(number), listing.settings, listing.queues[first : first + QUEUES_PER_TASK]
            )
            for number, listing in self._listings.items()
            for first in range(0, len(listing.queues), QUEUES_PER_TASK)
        ]
        claimed = dict.fromkeys(self._listings, 0)
        with watched(self._spark, "claims", self._progress):
            found = on_parts(self._spark, parts, claims_batch, CLAIMS).collect()
        for number, end, error in found:
            claimed[number] = max(claimed[number], end)
            self._fail(number, error)
        return claimed

    def _rows(self, claimed: Mapping[int, int], bytes_per_task: int) -> DataFrame:
        """Return the rows of logs and index files, to be read by tasks."""
        parts: list[Rows] = []
        for number in self._left():
            listing = self._listings[number]
            levels = DelayLevels.parse(listing.settings.message_delay_level)
            rules = Rules(listing.settings.crc, levels, listing.settings.message_index_enable)
            parts += [
                LogPart(number, pieces, rules, listing.vouched_time)
                for pieces in splits(listing.files, bytes_per_task)
            ]
            parts += index_parts(number, listing, claimed[number])
        return on_parts(self._spark, parts, read_rows, SCHEMA)

    def _seen(self, rows: DataFrame, claimed: Mapping[int, int]) -> dict[int, StoreSeen]:
        """Read the parts of all stores; return the facts about each."""
        with watched(self._spark, "read", self._progress):
            found = (
                rows.where(f.col("kind").isin(PIECE, INDEX, ERROR)).select("kind", "store", "data").collect()
            )
        pieces: defaultdict[int, list[PieceSeen]] = defaultdict(list)
        index: defaultdict[int, list[IndexSeen]] = defaultdict(list)
        for kind, number, data in found:
            if kind == ERROR:
                self._fail(number, bytes(data).decode())
            elif kind == PIECE:
                pieces[number].append(pickle.loads(data))  # noqa: S301  a task of this job made it
            else:
                index[number].append(pickle.loads(data))  # noqa: S301  as above
        seen = {}
        for number in self._left():
            for one in index[number]:
                self._report(number, CHECKED, one.reported)
            seen[number] = store_seen(
                self._root(number), self._listings[number], claimed[number], pieces[number], index[number]
            )
        return seen

    def _check_queues(self, rows: DataFrame, seen: Mapping[int, StoreSeen]) -> None:
        """Compare the queues with the records."""
        listed = [
            (number, bytearray(topic_bytes(topic)), queue_id, LISTED, None, None)
            for number in seen
            for topic, queue_id in self._listings[number].queues
        ]
        columns = "store int, topic binary, queue_id int, begin bigint, data binary, times binary"
        known = self._spark.createDataFrame(listed, columns)
        read = rows.where(f.col("kind") == QUEUE).select(known.columns).unionByName(known)
        self._run_check("queues", read, ["store", "topic", "queue_id"], queues_check(seen))

    def _check_keys(self, rows: DataFrame, seen: Mapping[int, StoreSeen]) -> dict[int, Missing]:
        """Compare the keys with the index; return by store those missing behind its end."""
        read = rows.where(f.col("kind").isin(KEYS, ENTRIES)).select("kind", "store", "place", "begin", "data")
        missing: dict[int, Missing] = {}
        for number, outcome in self._run_check("index", read, ["store", "place"], keys_check(seen)):
            missing[number] = missing.get(number, NONE_MISSING).plus(outcome.missing)
        return missing

    def _run_check(
        self, step: str, rows: DataFrame, owner: list[str], check: Check
    ) -> list[tuple[int, CheckOutcome]]:
        """Check rows, those of an owner in one task; report the findings, and return the outcomes."""
        left = rows.where(f.col("store").isin(*self._left()))
        size = sum(file.written for number in self._left() for file in self._listings[number].files)
        ordered = left.repartition(shuffle_tasks(size), *owner).sortWithinPartitions(*owner, "begin")
        with watched(self._spark, step, self._progress):
            found = ordered.mapInArrow(check, OUTCOMES).collect()
        outcomes = [(number, pickle.loads(outcome)) for number, outcome in found]  # noqa: S301  as above
        for number, outcome in outcomes:
            self._report(number, CHECKED, outcome.reported)
            self._fail(number, outcome.error)
        return outcomes

    def _check_places(
        self, seen: Mapping[int, StoreSeen], claimed: Mapping[int, int], missing: Mapping[int, Missing]
    ) -> None:
        left = self._left()
        finals = {
            seen[number].root: FinalCheck(
                seen[number].settings,
                seen[number].log,
                claimed[number],
                missing.get(number, NONE_MISSING),
                seen[number].index_is_whole,
            )
            for number in left
        }

        def work(root: Path) -> Iterator[bytes]:
            yield pickle.dumps(check_places(root, finals[root]))

        roots = [seen[number].root for number in left]
        outcomes = on_each(self._spark, "judge", roots, work, self._progress) if roots else []
        for number, (_, answers, error) in zip(left, outcomes, strict=True):
            self._fail(number, error)
            for answer in answers:
                self._report(number, EXPLAINED, pickle.loads(answer))  # noqa: S301  as above

    def _checked(self, number: int, seen: StoreSeen | None) -> StoreCheck:
        store = str(self._stores[number])
        if number in self._errors or seen is None:
            return StoreCheck(store, UNREADABLE, error=self._errors[number])
        findings = Findings()
        for _, reported in sorted(self._reported[number], key=itemgetter(0)):
            findings.add_reported(reported)
        places = [FindingRow(one.severity.value, str(path_of(one.path)), *one[2:]) for one in findings]
        return StoreCheck(
            store=store,
            state=state_of(findings).value,
            messages=seen.log.messages,
            bytes=seen.log.end_offset - seen.log.begin_offset,
            queues=len(self._listings[number].queues),
            index_entries=sum(file.header.next_entry - FIRST_ENTRY for file in seen.index_files),
            findings=sorted(places, key=lambda place: (place.path, place.position or 0, place.what)),
        )

    def _root(self, number: int) -> Path:
        return self._stores[number].absolute()

    def _left(self) -> list[int]:
        """Return the numbers of the stores that could be read so far."""
        return [number for number in self._listings if number not in self._errors]

    def _report(self, number: int, rank: int, reported: Reported) -> None:
        self._reported[number].append((rank, reported))

    def _fail(self, number: int, error: str) -> None:
        if error:
            self._errors.setdefault(number, error)
