"""A check of stores as a whole: what is read in which order, and what comes out of it.

::

    look     a task for each store: names, sizes, small tables
    claims   tasks for its queues ──► behind which record the log must go     the last files of each queue
    read     pieces of the log, index files ──► rows of what to compare       each file once, by the window
    queues   rows by queue, compared with the queue's files                   each file once
    index    rows by file of the log: keys are compared with index entries
    judge    a task for each store: why damage is damage, the log's end       some bytes

What is read of the log, a few bytes for each record and each key, Spark keeps on its disks until all is done.
A store that cannot be read costs the others nothing.
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
from cometmq.spark.jobs.parts import on_parts
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
from cometmq.spark.jobs.verify.log import PieceSeen
from cometmq.spark.jobs.verify.look import CLAIMS, Claims, LastLook, Looked, claims_batch, judge, look
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
from cometmq.store.finding import Severity
from cometmq.store.settings import StoreSettings
from cometmq.store.verify import State
from cometmq.store.verify.findings import Findings, Reported
from cometmq.store.verify.keys import NONE_MISSING, Missing
from cometmq.store.verify.whole import state_of

UNREADABLE = "unreadable"
TASKS_PER_CORE: Final = 3
QUEUES_PER_TASK: Final = 256
LOOKED, JUDGED, CHECKED = range(3)
"""In this order findings are kept, as long as there are few of a file: first why others are there."""


class FindingRow(msgspec.Struct, frozen=True):
    """One thing found in a store: see ``cometmq.store.finding.Finding``."""

    severity: str
    path: str
    position: int | None
    size: int | None
    what: str
    remedy: str


class StoreCheck(msgspec.Struct, frozen=True):
    """What the check of one store came to.

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
        """Whether bytes are lost or wrong, or nobody can tell."""
        return self.state in (State.DAMAGED.value, UNREADABLE)

    @property
    def damages(self) -> int:
        """How many findings are damage."""
        return sum(place.severity == Severity.DAMAGE.value for place in self.findings)


def verify(
    spark: SparkSession,
    stores: Sequence[Path | str],
    settings: StoreSettings | None = None,
    *,
    progress: Progress | None = None,
    bytes_per_task: int = BYTES_PER_PARTITION,
) -> list[StoreCheck]:
    """Check stores; nothing is written. Returns what came of it, in their order.

    Args:
        settings: of the brokers that wrote them; by default the sizes are told from each store's files.
        bytes_per_task: bytes of a log that one task reads.

    Raises SettingsError if there is no store.
    """
    return _Check(spark, stores, progress).run(settings, bytes_per_task)


class _Check:
    """One check of some stores, which are known by their numbers."""

    def __init__(self, spark: SparkSession, stores: Sequence[Path | str], progress: Progress | None) -> None:
        self._spark = spark
        self._given = [path_of(store) for store in stores]
        self._progress = progress
        self._tasks = spark.sparkContext.defaultParallelism * TASKS_PER_CORE
        self._errors: dict[int, str] = {}
        self._looked: dict[int, Looked] = {}
        self._reported: defaultdict[int, list[tuple[int, Reported]]] = defaultdict(list)

    def run(self, settings: StoreSettings | None, bytes_per_task: int) -> list[StoreCheck]:
        """Run all steps; return what came of each store."""
        kernels.load_if_possible()  # once, before many workers do: they find it in the cache
        self._look(settings)
        claimed = self._claimed()
        rows = self._rows(claimed, bytes_per_task).persist(StorageLevel.DISK_ONLY)
        try:
            seen = self._seen(rows, claimed)
            self._check_queues(rows, seen)
            missing = self._check_keys(rows, seen)
        finally:
            rows.unpersist()
        self._judge(seen, claimed, missing)
        return [self._checked(number, seen.get(number)) for number in range(len(self._given))]

    def _look(self, settings: StoreSettings | None) -> None:
        def work(root: Path) -> Iterator[bytes]:
            yield pickle.dumps(look(root, settings))

        outcomes = on_each(self._spark, "look", self._given, work, self._progress)
        for number, (_, answers, error) in enumerate(outcomes):
            if error:
                self._errors[number] = error
            else:
                self._looked[number] = pickle.loads(answers[0])  # noqa: S301  a task of this job made it
                self._report(number, LOOKED, self._looked[number].reported)

    def _claimed(self) -> dict[int, int]:
        """Return by store the CommitLog offset behind the last record that any queue knows."""
        parts = [
            Claims(
                number, self._root(number), looked.settings, looked.queues[first : first + QUEUES_PER_TASK]
            )
            for number, looked in self._looked.items()
            for first in range(0, len(looked.queues), QUEUES_PER_TASK)
        ]
        claimed = dict.fromkeys(self._looked, 0)
        with watched(self._spark, "claims", self._progress):
            found = on_parts(self._spark, parts, claims_batch, CLAIMS).collect()
        for number, end, error in found:
            claimed[number] = max(claimed[number], end)
            self._fail(number, error)
        return claimed

    def _rows(self, claimed: Mapping[int, int], bytes_per_task: int) -> DataFrame:
        """Return what is to be read of logs and index files."""
        parts: list[Rows] = []
        for number in self._left():
            looked = self._looked[number]
            levels = DelayLevels.parse(looked.settings.message_delay_level)
            rules = Rules(looked.settings.crc, levels, looked.settings.message_index_enable)
            parts += [
                LogPart(number, pieces, rules, looked.vouched_time)
                for pieces in splits(looked.files, bytes_per_task)
            ]
            parts += index_parts(number, looked, claimed[number])
        return on_parts(self._spark, parts, read_rows, SCHEMA)

    def _seen(self, rows: DataFrame, claimed: Mapping[int, int]) -> dict[int, StoreSeen]:
        """Return what is known of the stores once all is read."""
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
                self._root(number), self._looked[number], claimed[number], pieces[number], index[number]
            )
        return seen

    def _check_queues(self, rows: DataFrame, seen: Mapping[int, StoreSeen]) -> None:
        """Compare the queues with the records."""
        listed = [
            (number, bytearray(topic_bytes(topic)), queue_id, LISTED, None, None)
            for number in seen
            for topic, queue_id in self._looked[number].queues
        ]
        columns = "store int, topic binary, queue_id int, begin bigint, data binary, times binary"
        known = self._spark.createDataFrame(listed, columns)
        read = rows.where(f.col("kind") == QUEUE).select(known.columns).unionByName(known)
        self._run_check("queues", read, ["store", "topic", "queue_id"], queues_check(seen))

    def _check_keys(self, rows: DataFrame, seen: Mapping[int, StoreSeen]) -> dict[int, Missing]:
        """Compare the keys with the index; return by store which ones are missing behind its end."""
        read = rows.where(f.col("kind").isin(KEYS, ENTRIES)).select("kind", "store", "place", "begin", "data")
        missing: dict[int, Missing] = {}
        for number, outcome in self._run_check("index", read, ["store", "place"], keys_check(seen)):
            missing[number] = missing.get(number, NONE_MISSING).plus(outcome.missing)
        return missing

    def _run_check(
        self, step: str, rows: DataFrame, owner: list[str], check: Check
    ) -> list[tuple[int, CheckOutcome]]:
        """Check rows, those of an owner in one task; report what is found, and return what came of each."""
        left = rows.where(f.col("store").isin(*self._left()))
        ordered = left.repartition(self._tasks, *owner).sortWithinPartitions(*owner, "begin")
        with watched(self._spark, step, self._progress):
            found = ordered.mapInArrow(check, OUTCOMES).collect()
        outcomes = [(number, pickle.loads(outcome)) for number, outcome in found]  # noqa: S301  as above
        for number, outcome in outcomes:
            self._report(number, CHECKED, outcome.reported)
            self._fail(number, outcome.error)
        return outcomes

    def _judge(
        self, seen: Mapping[int, StoreSeen], claimed: Mapping[int, int], missing: Mapping[int, Missing]
    ) -> None:
        left = self._left()
        verdicts = {
            seen[number].root: LastLook(
                seen[number].settings,
                seen[number].log,
                claimed[number],
                missing.get(number, NONE_MISSING),
                seen[number].index_is_whole,
            )
            for number in left
        }

        def work(root: Path) -> Iterator[bytes]:
            yield pickle.dumps(judge(root, verdicts[root]))

        roots = [seen[number].root for number in left]
        outcomes = on_each(self._spark, "judge", roots, work, self._progress) if roots else []
        for number, (_, answers, error) in zip(left, outcomes, strict=True):
            self._fail(number, error)
            for answer in answers:
                self._report(number, JUDGED, pickle.loads(answer))  # noqa: S301  as above

    def _checked(self, number: int, seen: StoreSeen | None) -> StoreCheck:
        store = str(self._given[number])
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
            queues=len(self._looked[number].queues),
            index_entries=sum(file.header.next_entry - FIRST_ENTRY for file in seen.index_files),
            findings=sorted(places, key=lambda place: (place.path, place.position or 0, place.what)),
        )

    def _root(self, number: int) -> Path:
        return self._given[number].absolute()

    def _left(self) -> list[int]:
        """Return the numbers of the stores that could be read so far."""
        return [number for number in self._looked if number not in self._errors]

    def _report(self, number: int, rank: int, reported: Reported) -> None:
        self._reported[number].append((rank, reported))

    def _fail(self, number: int, error: str) -> None:
        if error:
            self._errors.setdefault(number, error)
