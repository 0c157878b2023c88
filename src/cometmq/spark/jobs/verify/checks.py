"""Check the queues and the index of stores in tasks, by the rows that ``rows`` has read of their logs.

All rows of a queue are in one task, in the order of the log, which checks queue after queue as
``store.verify.queues`` does on one machine. Keys and index entries are grouped by the file of the log that
they belong to, and compared as in ``store.verify.keys``.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from cometmq import kernels
from cometmq.errors import CometMQError
from cometmq.spark.files.remote_files import layer_of
from cometmq.spark.jobs.piece_scan import PieceSeen
from cometmq.spark.jobs.rebuild.entries import QUEUE_ROW, queue_key
from cometmq.spark.jobs.verify.index import ENTRY_ROW, IndexSeen
from cometmq.spark.jobs.verify.log import LogSeen, join_pieces
from cometmq.spark.jobs.verify.look import StoreListing
from cometmq.spark.jobs.verify.rows import ENTRIES, KEY_ROW
from cometmq.store.directory import StoreDirectory
from cometmq.store.settings import StoreSettings
from cometmq.store.verify.findings import Findings, Reported
from cometmq.store.verify.index import NOTHING
from cometmq.store.verify.keys import NONE_MISSING, Entries, IndexedFile, KeyCheck, Missing, RecordKeys
from cometmq.store.verify.queues import QueueCheck, Recorded

LISTED: Final = -1
"""The ``begin`` of a row for a queue that has files."""
OUTCOMES: Final = "store int, outcome binary"
_COLUMNS: Final[dict[str, pa.DataType]] = {"store": pa.int32(), "outcome": pa.binary()}
_ARROW: Final = pa.schema(_COLUMNS)

RowOf = Mapping[str, Any]
Check = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class StoreSeen(NamedTuple):
    """The facts about a store for the checks of its queues and its index.

    Attributes:
        recovered_from: CommitLog offset from which the next start dispatches the log again.
        index_files: the readable ones, in the order of the log.
        index_is_whole: whether no index file is missing or unreadable.
    """

    root: Path
    settings: StoreSettings
    log: LogSeen
    recovered_from: int
    index_files: list[IndexedFile]
    index_is_whole: bool


def store_seen(
    root: Path, listing: StoreListing, claimed: int, pieces: Iterable[PieceSeen], index: Iterable[IndexSeen]
) -> StoreSeen:
    """Combine what tasks have read of a store's log and index files.

    Args:
        claimed: CommitLog offset behind the last record in any queue.
    """
    files = sorted(index, key=lambda one: one.file)
    starts = [file.base_offset for file in listing.files]
    size = listing.settings.mapped_file_size_commit_log
    return StoreSeen(
        root=root,
        settings=listing.settings,
        log=join_pieces(pieces, starts, size, listing.vouched_time),
        recovered_from=listing.recovered_from(claimed),
        index_files=[one.indexed for one in files],
        index_is_whole=listing.index_is_whole and all(one.is_usable for one in files),
    )


class CheckOutcome(NamedTuple):
    """The result of a check of a part of a store; ``error`` is why it could not be made."""

    reported: Reported
    missing: Missing = NONE_MISSING
    error: str = ""


def queues_check(stores: Mapping[int, StoreSeen]) -> Check:
    """Return the check of queues, for rows that are sorted by store, queue and ``begin``."""
    return lambda batches: _checked(batches, stores, _check_queues)


def keys_check(stores: Mapping[int, StoreSeen]) -> Check:
    """Return the check of keys and index entries, for rows sorted by store, ``place`` and ``begin``."""
    return lambda batches: _checked(batches, stores, _check_keys)


def _checked(
    batches: Iterator[pa.RecordBatch],
    stores: Mapping[int, StoreSeen],
    check: Callable[[StoreDirectory, StoreSeen, Iterator[RowOf]], CheckOutcome],
) -> Iterator[pa.RecordBatch]:
    kernels.load_if_possible()
    for number, rows in groupby(_rows(batches), key=lambda row: int(row["store"])):
        seen = stores[number]
        try:
            with StoreDirectory(seen.root, seen.settings, layer_of(seen.root)) as store:
                outcome = check(store, seen, rows)
        except (CometMQError, OSError) as failed:
            outcome = CheckOutcome(Reported([], {}), error=str(failed) or type(failed).__name__)
        yield pa.RecordBatch.from_pylist([{"store": number, "outcome": pickle.dumps(outcome)}], _ARROW)


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[RowOf]:
    for batch in batches:
        for number in range(batch.num_rows):
            yield {name: batch.column(name)[number].as_py() for name in batch.schema.names}


def _check_queues(store: StoreDirectory, seen: StoreSeen, rows: Iterator[RowOf]) -> CheckOutcome:
    findings = Findings()
    check = QueueCheck(store, seen.log, findings, (), seen.recovered_from)
    for key, of_queue in groupby(rows, key=lambda row: queue_key(row["topic"], row["queue_id"])):
        before: Recorded | None = None
        for row in of_queue:
            if row["begin"] == LISTED:
                files = store.queue(*key)
                files.chain.find_files()
                if files.ext is not None:
                    files.ext.chain.find_files()
                check.add(files)
                continue
            records = _recorded(row, seen.log)
            if not len(records.entries):
                continue
            if before is not None:
                check.check_entries(key, before._replace(following=int(records.queue_offsets[0])))
            before = records
        if before is not None:
            check.check_entries(key, before)
        check.finish_queue(key)
    return CheckOutcome(findings.reported())


def _recorded(row: RowOf, log: LogSeen) -> Recorded:
    """Return the records of a row that lie in the log."""
    rows = np.frombuffer(row["data"], QUEUE_ROW)
    times = None if row["times"] is None else np.frombuffer(row["times"], "<i8").astype(np.int64)
    counts = log.kept.holds(rows["entry"]["physical_offset"].astype(np.int64))
    return Recorded(
        rows["queue_offset"][counts].astype(np.int64),
        rows["entry"][counts].copy(),
        None if times is None else times[counts],
    )


def _check_keys(store: StoreDirectory, seen: StoreSeen, rows: Iterator[RowOf]) -> CheckOutcome:
    findings = Findings()
    recovered_from = None if store.was_closed else seen.recovered_from
    check = KeyCheck(
        store, seen.log, findings, seen.index_files, recovered_from, is_whole=seen.index_is_whole
    )
    for _, of_file in groupby(rows, key=lambda row: int(row["place"])):
        keys = _FileKeys(check)
        for row in of_file:
            keys.add(row, seen.log)
        keys.finish()
    return CheckOutcome(findings.reported(), check.missing)


class _FileKeys:
    """The keys and entries of one file of the log: keys wait for all entries that point before their end."""

    def __init__(self, check: KeyCheck) -> None:
        self._check = check
        self._entries = NOTHING
        self._keys: list[RecordKeys] = []

    def add(self, row: RowOf, log: LogSeen) -> None:
        """Add a row, and check the keys whose entries are complete by it."""
        self._check_before(row["begin"])
        if row["kind"] == ENTRIES:
            fields = np.frombuffer(row["data"], ENTRY_ROW)
            self._entries = self._entries.followed_by(Entries(*(fields[name] for name in Entries._fields)))
            return
        fields = np.frombuffer(row["data"], KEY_ROW)
        counts = log.kept.holds(fields["physical_offset"].astype(np.int64))
        if counts.any():
            self._keys.append(RecordKeys(*(fields[name][counts] for name in RecordKeys._fields)))

    def finish(self) -> None:
        """Check the remaining keys and entries."""
        self._check_before(None)
        self._check.report_strays(self._entries)

    def _check_before(self, begin: int | None) -> None:
        """Check the keys before a CommitLog offset; all if it is None."""
        while self._keys and (begin is None or self._keys[0].physical_offset[-1] < begin):
            keys = self._keys.pop(0)
            mine = self._entries.physical_offset <= keys.physical_offset[-1]
            self._check.check(int(keys.physical_offset[0]), keys, self._entries.chosen(mine))
            self._entries = self._entries.chosen(~mine)
