"""The first and the last look at a store that is checked by many tasks: each is one task's."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa

from cometmq.errors import CometMQError
from cometmq.format.checksum import Crc
from cometmq.format.index import HEADER_SIZE, IndexHeader
from cometmq.format.record import HEAD_MAX_SIZE, MAGIC_AT
from cometmq.format.scan import Stop, StopReason, check
from cometmq.spark.files.remote import RemotePath, opened, path_of
from cometmq.spark.files.remote_files import layer_of
from cometmq.spark.files.splits import LogFile
from cometmq.spark.jobs.verify.log import LogSeen
from cometmq.store.finding import Finding, Severity
from cometmq.store.offline.directory import StoreDirectory
from cometmq.store.queue.queues import QueueKey
from cometmq.store.recovery.log_scan import NO_RECORD
from cometmq.store.recovery.vouched import vouched_start
from cometmq.store.settings import StoreSettings
from cometmq.store.verify.findings import PER_FILE_MAX, Findings, Reported
from cometmq.store.verify.index import report_unindexed
from cometmq.store.verify.keys import Missing
from cometmq.store.verify.log import LOST, check_end, wrong_blank
from cometmq.store.verify.queues import claimed_end, list_queues
from cometmq.store.verify.tables import check_checkpoint, check_tables
from cometmq.store.verify.whole import not_closed

CLAIMS: Final = "store int, end bigint, error string"


class Looked(NamedTuple):
    """What the first look at a store found.

    Attributes:
        vouched_time: store time, ms, up to which the log is known to have been on the disk.
        files: of the log, those that can be used.
        queues: topic and number of each that has files.
        index_files: those that can be used, and their headers, in the order of the log.
        index_is_whole: whether there is no other index file.
        vouched: CommitLog offset from which the next start dispatches the log again, by the checkpoint; None
            if it would do all.
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
        """CommitLog offset of the first byte there is."""
        return self.files[0].base_offset if self.files else 0

    def recovered_from(self, claimed: int) -> int:
        """Return the CommitLog offset from which the next start dispatches the log again.

        Args:
            claimed: behind the last record that any queue knows.
        """
        return self.log_begin if self.vouched is None else min(self.vouched, claimed)


def look(root: Path, settings: StoreSettings | None) -> Looked:
    """Look at a store's names, sizes and small tables. Raises SettingsError, OSError."""
    findings = Findings()
    with StoreDirectory(root, settings, layer_of(root)) as store:
        for finding in (*store.findings, *not_closed(store)):
            findings.add(finding)
        queues = [(queue.topic, queue.queue_id) for queue in list_queues(store, findings)]
        listed: list[Finding] = []
        paths = store.index_paths(listed) if store.settings.message_index_enable else []
        for finding in listed:
            findings.add(finding)
        index = [(path, _header(store, path)) for path in paths]
        chain, is_remote = store.log.chain, isinstance(root, RemotePath)
        written = {
            start: chain.file_size if is_remote else chain.file(start).data_end(0) for start in chain.starts
        }
        return Looked(
            settings=store.settings,
            was_closed=store.was_closed,
            vouched_time=store.vouched_time,
            files=[
                LogFile(path_of(chain.path(start)), start, chain.file_size, end)
                for start, end in written.items()
            ],
            queues=queues,
            index_files=sorted(index, key=lambda found: found[1].begin_physical_offset),
            index_is_whole=not any(finding.severity is Severity.DAMAGE for finding in listed),
            vouched=None
            if store.was_closed or store.checkpoint is None
            else vouched_start(store.log, store.checkpoint),
            reported=findings.reported(),
        )


class Claims(NamedTuple):
    """Some queues of a store, which one task asks behind which record the log must go.

    Attributes:
        store: the store's number.
    """

    store: int
    root: Path
    settings: StoreSettings
    queues: list[QueueKey]

    def end(self) -> int:
        """Return the CommitLog offset behind the last record that any of the queues knows. Raises OSError."""
        with StoreDirectory(self.root, self.settings, layer_of(self.root)) as store:
            ends = []
            for key in self.queues:
                queue = store.queue(*key)
                queue.chain.look()
                ends.append(claimed_end(store, [queue]))
                store.drop_pages()
        return max(ends, default=0)


def claims_batch(claims: Claims) -> Iterator[pa.RecordBatch]:
    """Return the end that queues claim as Spark takes it (of ``CLAIMS``), or why they cannot be read."""
    end, error = 0, ""
    try:
        end = claims.end()
    except (CometMQError, OSError) as failed:
        error = str(failed) or type(failed).__name__
    yield pa.RecordBatch.from_pydict(
        {"store": pa.array([claims.store], pa.int32()), "end": [end], "error": [error]}
    )


class LastLook(NamedTuple):
    """What the last look at a store goes by.

    Attributes:
        claimed: CommitLog offset behind the last record that any queue knows.
        missing: keys behind the index's end.
    """

    settings: StoreSettings
    log: LogSeen
    claimed: int
    missing: Missing
    index_is_whole: bool


def judge(root: Path, verdict: LastLook) -> Reported:
    """Look at the places in a log that need more than numbers, and at the store's tables. Raises OSError."""
    findings = Findings()
    seen = verdict.log
    with StoreDirectory(root, verdict.settings, layer_of(root)) as store:
        chain = store.log.chain

        def why_not(start: int, position: int) -> str:
            return _why_not(chain.path(start), chain.file_size, start, position, store.log.crc)

        told: Counter[int] = Counter()
        for lost in seen.lost:
            start = chain.start_of(lost.begin)
            assert start is not None
            told[start] += 1
            is_told = told[start] <= PER_FILE_MAX
            reason = lost.reason or (is_told and why_not(start, lost.begin - start)) or NO_RECORD
            findings.damage(chain.path(start), lost.begin - start, lost.end - lost.begin, reason, LOST)
        for blank in seen.blanks:
            start = chain.start_of(blank.offset)
            assert start is not None
            position = blank.offset - start
            findings.add(wrong_blank(chain.path(start), position, blank.size, chain.file_size - position))
        end = check_end(store, seen.end_offset, verdict.claimed, seen.data_behind, why_not)
        if end is not None:
            findings.add(end)
        report_unindexed(store, verdict.missing, findings, is_whole=verdict.index_is_whole)
        check_checkpoint(store, seen.last_time, findings)
        check_tables(store, findings)
    return findings.reported()


def _header(store: StoreDirectory, path: Path) -> IndexHeader:
    file = store.layer.open(path, writable=False)
    try:
        return IndexHeader.unpack(file.read(0, HEADER_SIZE))
    finally:
        file.close()


def _why_not(path: Path, size: int, start: int, position: int, crc: Crc) -> str:
    """Return why no record can be read at a position of a file of the log; empty if nothing is there."""
    head_end = min(position + HEAD_MAX_SIZE, size)
    found = opened(path_of(path), size, head_end)
    found.need(position, head_end)
    head = check(found.data, position, head_end, base_offset=start, crc=Crc.NONE)
    if isinstance(head, Stop) and head.reason is StopReason.LIMIT:
        length = int.from_bytes(found.data[position : position + MAGIC_AT], "big")
        found.need(position, min(position + length, size))
    stop = check(found.data, position, size, base_offset=start, crc=crc)
    return stop.detail if isinstance(stop, Stop) else ""
