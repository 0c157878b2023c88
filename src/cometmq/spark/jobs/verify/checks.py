"""Checking the queues and the index of stores by what ``rows`` has read of their logs, in tasks.

All rows of a queue come to one task, in the order of the log: so what one machine's check of a queue does
(``store.verify.queues``) is done here, queue after queue. Keys and index entries come together by the file of
the log that they are of, and are compared as ``store.verify.keys`` does.
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
from cometmq.spark.jobs.rebuild.entries import QUEUE_ROW, queue_key
from cometmq.spark.jobs.verify.index import ENTRY_ROW, IndexSeen
from cometmq.spark.jobs.verify.log import LogSeen, PieceSeen, joined
from cometmq.spark.jobs.verify.look import Looked
from cometmq.spark.jobs.verify.rows import ENTRIES, KEY_ROW
from cometmq.store.offline.directory import StoreDirectory
from cometmq.store.settings import StoreSettings
from cometmq.store.verify.findings import Findings, Reported
from cometmq.store.verify.index import NOTHING
from cometmq.store.verify.keys import NONE_MISSING, Entries, IndexedFile, KeyCheck, Missing, RecordKeys
from cometmq.store.verify.queues import QueueCheck, Recorded

LISTED: Final = -1
"""The ``begin`` of a row that only says that a queue has files."""
OUTCOMES: Final = "store int, outcome binary"
_COLUMNS: Final[dict[str, pa.DataType]] = {"store": pa.int32(), "outcome": pa.binary()}
_ARROW: Final = pa.schema(_COLUMNS)

RowOf = Mapping[str, Any]
Check = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class StoreSeen(NamedTuple):
    """What is known of a store when its queues and its index are checked.

    Attributes:
        recovered_from: CommitLog offset from which the next start dispatches the log again.
        index_files: those that can be looked at, in the order of the log.
        index_is_whole: whether there are all index files that there were.
    """

    root: Path
    settings: StoreSettings
    log: LogSeen
    recovered_from: int
    index_files: list[IndexedFile]
    index_is_whole: bool


def store_seen(
    root: Path, looked: Looked, claimed: int, pieces: Iterable[PieceSeen], index: Iterable[IndexSeen]
) -> StoreSeen:
    """Return what is known of a store once its log and its index files are read.

    Args:
        claimed: CommitLog offset behind the last record that any queue knows.
    """
    files = sorted(index, key=lambda one: one.file)
    starts = [file.base_offset for file in looked.files]
    size = looked.settings.mapped_file_size_commit_log
    return StoreSeen(
        root=root,
        settings=looked.settings,
        log=joined(pieces, starts, size, looked.vouched_time),
        recovered_from=looked.recovered_from(claimed),
        index_files=[one.indexed for one in files],
        index_is_whole=looked.index_is_whole and all(one.is_usable for one in files),
    )


class CheckOutcome(NamedTuple):
    """What came of a check of a part of a store; ``error`` says why it could not be made."""

    reported: Reported
    missing: Missing = NONE_MISSING
    error: str = ""


def queues_check(stores: Mapping[int, StoreSeen]) -> Check:
    """Return the check of the queues of rows, which come sorted by store, queue and ``begin``."""
    return lambda batches: _checked(batches, stores, _check_queues)


def keys_check(stores: Mapping[int, StoreSeen]) -> Check:
    """Return the check of keys and index entries, which come sorted by store, ``place`` and ``begin``."""
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
                files.chain.look()
                if files.ext is not None:
                    files.ext.chain.look()
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
    """Return the records of a row that count."""
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
        place = _Place(check)
        for row in of_file:
            place.take(row, seen.log)
        place.finish()
    return CheckOutcome(findings.reported(), check.missing)


class _Place:
    """Keys and entries of one file of the log: keys wait for all entries that point before their end."""

    def __init__(self, check: KeyCheck) -> None:
        self._check = check
        self._entries = NOTHING
        self._keys: list[RecordKeys] = []

    def take(self, row: RowOf, log: LogSeen) -> None:
        """Add a row; check the keys for which it shows that all entries came."""
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
        """Check what is left."""
        self._check_before(None)
        self._check.report_strays(self._entries)

    def _check_before(self, begin: int | None) -> None:
        """Check the keys that lie before a CommitLog offset; all if there is none."""
        while self._keys and (begin is None or self._keys[0].physical_offset[-1] < begin):
            keys = self._keys.pop(0)
            mine = self._entries.physical_offset <= keys.physical_offset[-1]
            self._check.check(int(keys.physical_offset[0]), keys, self._entries.chosen(mine))
            self._entries = self._entries.chosen(~mine)
