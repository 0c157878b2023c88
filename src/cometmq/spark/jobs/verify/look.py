"""The first and the last step of a check of a store, each in one task: list it, and check single places."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa

from cometmq.errors import CometMQError
from cometmq.format.index import HEADER_SIZE, IndexHeader
from cometmq.spark.files.remote_files import layer_of
from cometmq.spark.files.splits import LogFile
from cometmq.spark.jobs.piece_scan import why_not
from cometmq.spark.jobs.stores import log_files_of
from cometmq.spark.jobs.verify.log import LogSeen
from cometmq.store.directory import StoreDirectory
from cometmq.store.files.finding import Finding, Severity
from cometmq.store.log.log_scan import NO_RECORD
from cometmq.store.log.vouched import vouched_start
from cometmq.store.queue.queues import QueueKey
from cometmq.store.settings import StoreSettings
from cometmq.store.verify.findings import PER_FILE_MAX, Findings, Reported
from cometmq.store.verify.index import report_unindexed
from cometmq.store.verify.keys import Missing
from cometmq.store.verify.log import LOST, check_end, wrong_blank
from cometmq.store.verify.queues import claimed_end, list_queues
from cometmq.store.verify.tables import check_checkpoint, check_tables
from cometmq.store.verify.whole import not_closed

CLAIMS: Final = "store int, end bigint, error string"


class StoreListing(NamedTuple):
    """The files of a store, and what its small tables say.

    Attributes:
        vouched_time: store time, ms, up to which the log is known to have been on the disk.
        files: usable ones of the log.
        queues: topic and queue id of each that has files.
        index_files: usable ones and their headers, in the order of the log.
        index_is_whole: whether there is no unusable index file.
        vouched: CommitLog offset from which the next start dispatches the log again, by the checkpoint; None
            for the whole log.
    """

    settings: StoreSettings
    was_closed: bool
    vouched_time: int
    files: list[LogFile]
    queues: list[QueueKey]
    index_files: list[tuple[Path, IndexHeader]]
    index_is_whole: bool
    vouched: int | None
    reported: Reported

    @property
    def log_begin(self) -> int:
        """CommitLog offset at which the first file begins."""
        return self.files[0].base_offset if self.files else 0

    def recovered_from(self, claimed: int) -> int:
        """Return the CommitLog offset from which the next start dispatches the log again.

        Args:
            claimed: CommitLog offset behind the last record in any queue.
        """
        return self.log_begin if self.vouched is None else min(self.vouched, claimed)


def list_store(root: Path, settings: StoreSettings | None) -> StoreListing:
    """Read a store's file names, sizes and small tables. Raises SettingsError, OSError."""
    findings = Findings()
    with StoreDirectory(root, settings, layer_of(root)) as store:
        findings.add_all([*store.findings, *not_closed(store)])
        queues = [(queue.topic, queue.queue_id) for queue in list_queues(store, findings)]
        listed: list[Finding] = []
        paths = store.index_paths(listed) if store.settings.message_index_enable else []
        findings.add_all(listed)
        index = [(path, _header(store, path)) for path in paths]
        return StoreListing(
            settings=store.settings,
            was_closed=store.was_closed,
            vouched_time=store.vouched_time,
            files=log_files_of(store),
            queues=queues,
            index_files=sorted(index, key=lambda found: found[1].begin_physical_offset),
            index_is_whole=not any(finding.severity is Severity.DAMAGE for finding in listed),
            vouched=None
            if store.was_closed or store.checkpoint is None
            else vouched_start(store.log, store.checkpoint),
            reported=findings.reported(),
        )


class Claims(NamedTuple):
    """The part of one task: queues of a store, whose last entries show up to where the log must go.

    Attributes:
        store: the store's number.
    """

    store: int
    root: Path
    settings: StoreSettings
    queues: list[QueueKey]

    def end(self) -> int:
        """Return the CommitLog offset behind the last record in any of the queues. Raises OSError."""
        with StoreDirectory(self.root, self.settings, layer_of(self.root)) as store:
            ends = []
            for key in self.queues:
                queue = store.queue(*key)
                queue.chain.find_files()
                ends.append(claimed_end(store, [queue]))
                store.drop_pages()
        return max(ends, default=0)


def claims_batch(claims: Claims) -> Iterator[pa.RecordBatch]:
    """Build a row of ``CLAIMS`` with the end that queues claim, or the error if they cannot be read."""
    end, error = 0, ""
    try:
        end = claims.end()
    except (CometMQError, OSError) as failed:
        error = str(failed) or type(failed).__name__
    yield pa.RecordBatch.from_pydict(
        {"store": pa.array([claims.store], pa.int32()), "end": [end], "error": [error]}
    )


class FinalCheck(NamedTuple):
    """The facts for the last step of a check of a store.

    Attributes:
        claimed: CommitLog offset behind the last record in any queue.
        missing: keys behind the index's end.
    """

    settings: StoreSettings
    log: LogSeen
    claimed: int
    missing: Missing
    index_is_whole: bool


def check_places(root: Path, final: FinalCheck) -> Reported:
    """Check the damage and the end of a log by their bytes, and the store's tables. Raises OSError."""
    findings = Findings()
    seen = final.log
    with StoreDirectory(root, final.settings, layer_of(root)) as store:
        chain = store.log.chain

        def why_no_record(start: int, position: int) -> str:
            return why_not(chain.path(start), chain.file_size, start, position, store.log.crc)

        counts: Counter[int] = Counter()
        for lost in seen.lost:
            start = chain.start_of(lost.begin)
            assert start is not None
            counts[start] += 1
            is_shown = counts[start] <= PER_FILE_MAX
            reason = lost.reason or (is_shown and why_no_record(start, lost.begin - start)) or NO_RECORD
            findings.damage(chain.path(start), lost.begin - start, lost.end - lost.begin, reason, LOST)
        for blank in seen.blanks:
            start = chain.start_of(blank.offset)
            assert start is not None
            position = blank.offset - start
            findings.add(wrong_blank(chain.path(start), position, blank.size, chain.file_size - position))
        end = check_end(store, seen.end_offset, final.claimed, seen.data_behind, why_no_record)
        if end is not None:
            findings.add(end)
        report_unindexed(store, final.missing, findings, is_whole=final.index_is_whole)
        check_checkpoint(store, seen.last_time, findings)
        check_tables(store, findings)
    return findings.reported()


def _header(store: StoreDirectory, path: Path) -> IndexHeader:
    file = store.layer.open(path, writable=False)
    try:
        return IndexHeader.unpack(file.read(0, HEADER_SIZE))
    finally:
        file.close()
