"""Recover the state of a store that is opened: after a clean stop, and after a kill or power loss.

==========================  ===========================  ==========================================
What                        clean (no ``abort`` file)    unclean
==========================  ===========================  ==========================================
ConsumeQueues               last file of each            last three; cut at the first invalid entry
                                                         and where the scan begins
Index                       used as it is                cut where the scan begins
CommitLog is scanned from   the last dispatched record   the file that the checkpoint vouches for
… and again, earlier        if all files of a queue      if all files of a queue are missing,
                            are missing                  or the last ones
each record's CRC           checked                      checked
valid records               dispatched                   dispatched
a torn tail                 set aside                    set aside
damage before the tail      reported and skipped         reported and skipped
queue entries past the end  set aside and cut            set aside and cut
units of queue entries      used as they are             none for what is dispatched again
the log is synced           no, it was                   yes: a message that is read must not get lost
==========================  ===========================  ==========================================

After an unclean stop only what the checkpoint vouches for is trusted: the page cache may show all that came
later, while the disk has none of it. So entries and keys of the scanned records are written again, and synced
before the checkpoint vouches for them.

Nothing is deleted on a failed check: bytes behind the end of the log are copied to ``setaside/`` before they
are cleared. They must be cleared, since records of an earlier use of the file would look valid once the log
has grown up to them.

Source: RocketMQ ``store/CommitLog.java`` (recoverNormally, recoverAbnormally),
``store/DefaultMessageStore.java`` (load, recover).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from cometmq import kernels
from cometmq.errors import IllegalName, SettingsError
from cometmq.format import layout
from cometmq.format.checksum import Crc
from cometmq.format.record import BODY_AT, END_FILE_MIN_BLANK, RecordHead, encode_blank
from cometmq.format.scan import check
from cometmq.io.files import FileLayer
from cometmq.logs import get_logger
from cometmq.store.files.set_aside import SET_ASIDE
from cometmq.store.index.index import Index
from cometmq.store.log.commit_log import CommitLog, describe
from cometmq.store.log.log_scan import LogDamage, LogScan
from cometmq.store.log.seek import record_store_time
from cometmq.store.log.torn import stored_without_crc
from cometmq.store.log.vouched import mark_open, vouched_start, vouched_time, was_closed
from cometmq.store.parts import Parts
from cometmq.store.progress import Progress
from cometmq.store.queue.consume_queue import ConsumeQueue
from cometmq.store.queue.ledger import Ledger
from cometmq.store.queue.queues import Queues
from cometmq.store.recovery import lost_entries
from cometmq.store.recovery.replay import Gap, Replay

log = get_logger(__name__)

COPY_BYTES = 4 * 1024 * 1024
WRITE_BACK_BYTES = 16 * 1024
"""Bytes of a queue's entries that are buffered while the log is scanned."""


class Recovered(NamedTuple):
    """The result of a recovery.

    Attributes:
        clean: whether the store had been closed.
        begin: CommitLog offset from which the log was scanned.
        end: CommitLog offset behind the last record.
        messages: records scanned.
        damages: stretches of the log that hold no records.
        gaps: stretches of queues whose messages are lost.
        set_aside: the copy of a torn tail, or None.
    """

    clean: bool
    begin: int
    end: int
    messages: int
    damages: list[LogDamage]
    gaps: list[Gap]
    set_aside: Path | None


def recover(
    parts: Parts, progress: Progress = lambda _done, _total: None, *, whole: bool = False
) -> Recovered:
    """Load the parts of a store and make them consistent.

    Args:
        whole: whether to scan the whole log, even if a part would do.

    Raises StoreDamaged for a file that cannot be used, OSError on a disk error.
    """
    commit_log, queues, index, ledger = parts.log, parts.queues, parts.index, parts.ledger
    layer, known = parts.files.layer, parts.checkpoint
    clean = was_closed(layer, parts.root)
    _load(parts, progress, clean=clean)
    vouched = vouched_time(
        layer, parts.root, known.value if known.is_known or not commit_log.chain.starts else None
    )
    if clean:
        mark_open(layer, parts.root)
    for topic, offset in ledger.deleted.items():
        queues.delete(topic, before=offset)
    for queue in queues:
        queue.cut(commit_log.chain.end_offset)  # a damaged entry must not count as a dispatched record
    unsure_keys = lost_entries.unsure_keys(parts, clean=clean)
    begin = _begin(parts, clean=clean)
    if whole:
        begin = commit_log.min_offset
    elif (missing := _first_missing(commit_log, queues, ledger)) is not None:
        begin = min(begin, missing)
    if not clean:
        for queue in queues:
            queue.cut(begin)
    for queue in queues:
        queue.recover_ext(queues.drop_unsynced)
    scan, replay = _walk(parts, begin, vouched, progress)
    if replay.lagging:
        begin = _within(commit_log, min(queue.physical_end for queue in replay.lagging))
        log.warning("%d queues lack files: the log is scanned again from %d", len(replay.lagging), begin)
        scan, replay = _walk(parts, begin, vouched, progress, is_last=True)
    _check_sealed(commit_log, scan.end_offset)
    commit_log.written_offset = scan.end_offset
    commit_log.written_time = scan.last_time or parts.checkpoint.value.physic_msg_timestamp
    ledger.cut(scan.end_offset)
    _restore_expired_queues(commit_log, queues, ledger)
    lost_entries.set_aside_keys(parts, unsure_keys, scan.end_offset)
    if index is not None and index.end_offset >= scan.end_offset:
        index.cut(scan.end_offset, lambda offset: _store_time_at(commit_log, offset))
    set_aside = _set_aside_tail(commit_log, layer, parts.root)
    for queue in queues:
        queue.cut(scan.end_offset)
    lost_entries.set_aside_entries(parts, scan.end_offset)
    for queue in queues:
        queue.clear_behind_end()
        queue.correct_min_offset(commit_log.min_offset)
        queue.next_offset = queue.max_offset
    queues.trusted = False
    for damage in scan.damages:
        log.error(
            "%s: %d bytes at %d are damaged: %s", damage.path, damage.size, damage.position, damage.reason
        )
        _write_blank(commit_log, damage)
    if not clean:
        _report_lost_end(parts, scan)
        _sync_log(commit_log, begin, layer)
    try:
        parts.checkpoint.create_if_missing()
        mark_open(layer, parts.root)  # in this boot: all that can be read now is on the disk
    except OSError as error:
        log.warning("the file abort was not written: %s", describe(error, parts.root))
    return Recovered(clean, begin, scan.end_offset, replay.messages, scan.damages, replay.gaps, set_aside)


def _check_sealed(commit_log: CommitLog, end: int) -> None:
    """Raise SettingsError if records only lack the property CRC: they are neither damage nor a torn tail."""
    offset = stored_without_crc(commit_log, end)
    if offset is not None and (start := commit_log.chain.start_of(offset)) is not None:
        raise SettingsError(
            f"{commit_log.chain.path(start)}, byte {offset - start}: messages from here on were stored "
            "without enabledAppendPropCRC: set forceVerifyPropCRC = false until they have expired"
        )


def _load(parts: Parts, progress: Progress, *, clean: bool) -> None:
    """Load checkpoint, ledger, log, queues and index from their files."""
    parts.checkpoint.load()
    parts.ledger.load()
    parts.log.chain.load()
    total = _data_end(parts.log) - parts.log.min_offset
    parts.queues.load(
        trusted=clean,
        min_physical_offset=parts.log.min_offset,
        on_topic=lambda: progress(0, total),
    )
    if parts.index is not None:
        parts.index.load()


def _walk(
    parts: Parts, begin: int, vouched: int, progress: Progress, *, is_last: bool = False
) -> tuple[LogScan, Replay]:
    """Scan and dispatch the log from ``begin`` on.

    Args:
        vouched: store time, ms, up to which the log is known to have been on the disk.
        is_last: False skips queues that lack messages which may lie before ``begin``.
    """
    scan = LogScan(parts.log, begin, vouched_time=vouched)
    is_whole = is_last or begin == parts.log.min_offset
    replay = Replay(
        parts.queues,
        parts.index,
        parts.delay_levels,
        begin=0 if is_whole else begin,
        deleted=parts.ledger.deleted,
    )
    total = _data_end(parts.log) - begin
    kernels.load_for(total)
    for chunk in replay.walk(iter(scan)):
        parts.queues.write_back(WRITE_BACK_BYTES)
        parts.files.drop_pages()
        progress(chunk.end_offset - begin, total)
    return scan, replay


def _data_end(commit_log: CommitLog) -> int:
    """Return the offset behind the last data in the log's files."""
    chain = commit_log.chain
    return chain.starts[-1] + chain.file(chain.starts[-1]).data_end(0) if chain.starts else 0


def _begin(parts: Parts, *, clean: bool) -> int:
    """Return the offset from which the log must be scanned."""
    commit_log = parts.log
    queues = sorted(parts.queues, key=lambda queue: queue.physical_end, reverse=True)
    begin = next(
        (queue.physical_end for queue in queues if _ends_with_a_record(queue, commit_log)),
        commit_log.min_offset,
    )
    if not clean:
        begin = min(begin, vouched_start(commit_log, parts.checkpoint.value))
    if parts.index is not None:
        begin = min(begin, _index_end(parts, parts.index, begin, clean=clean))
    return _within(commit_log, begin)


def _index_end(parts: Parts, index: Index, begin: int, *, clean: bool) -> int:
    """Cut the index at ``begin`` or a missing file unless it is sound; return the offset to index from."""
    lost = _lost_index_files(parts.ledger.index_files, index, parts.log.min_offset)
    if clean and index.is_whole and not lost:
        return begin
    index.cut(min([begin, *lost]), lambda offset: _store_time_at(parts.log, offset))
    return index.end_offset


def _lost_index_files(known: Mapping[str, int], index: Index, min_offset: int) -> list[int]:
    """Return the offsets at which missing index files began, except those whose records have all expired."""
    there = index.begin_offsets()
    begins = sorted({*known.values(), *there.values()})  # a known file ended where a later one begins
    lost = [first for name, first in known.items() if name not in there]
    ends = [next((end for end in begins if end > first), None) for first in lost]
    return [
        max(first, min_offset)
        for first, end in zip(lost, ends, strict=True)
        if end is None or end >= min_offset
    ]


def _first_missing(commit_log: CommitLog, queues: Queues, ledger: Ledger) -> int | None:
    """Return the offset behind which records of queues with missing files are; None if no file is missing."""
    names, begins = [], []
    for (topic, queue_id), end in ledger.ends.items():
        queue = queues.find(topic, queue_id)
        begin = 0 if queue is None else queue.physical_end
        if begin < end and end > commit_log.min_offset:
            names.append(f"{topic}-{queue_id}")
            begins.append(_within(commit_log, begin))
    if names:
        some = lost_entries.some_of(names)
        log.warning("%d queues lack files (%s): their messages are searched in the log", len(names), some)
    return min(begins, default=None)


def _restore_expired_queues(commit_log: CommitLog, queues: Queues, ledger: Ledger) -> None:
    """Set queues without files and messages to the ledger's queue offset: they must not restart at 0."""
    for (topic, queue_id), end in ledger.ends.items():
        queue = queues.find(topic, queue_id)
        offset = ledger.offsets.get((topic, queue_id), 0)
        if not offset or end > commit_log.min_offset or (queue is not None and queue.max_offset):
            continue
        try:
            queue = queues.find_or_create(topic, queue_id)
        except IllegalName as illegal:
            log.warning("the queue's end in the ledger is ignored: %s", illegal)
            continue
        log.warning("%s-%d lacks files: it continues at queue offset %d", topic, queue_id, offset)
        queue.skip_to(offset)
        queue.physical_end = end


def _within(commit_log: CommitLog, offset: int) -> int:
    """Return ``offset`` if a file of the log holds it, else the log's first offset."""
    return commit_log.min_offset if commit_log.chain.start_of(offset) is None else offset


def _ends_with_a_record(queue: ConsumeQueue, commit_log: CommitLog) -> bool:
    """Check that the queue's last entry points to a record: a damaged one must not set where to scan from."""
    entry = queue.last_message()
    if entry is None or (start := commit_log.chain.start_of(entry.physical_offset)) is None:
        return False
    view = commit_log.chain.file(start).view()
    head = check(view, entry.physical_offset - start, len(view), base_offset=start, crc=Crc.NONE)
    return isinstance(head, RecordHead) and head.size == entry.size


def _store_time_at(commit_log: CommitLog, offset: int) -> int:
    """Return the store time, ms, of the record at a CommitLog offset; 0 if its file is gone."""
    start = commit_log.chain.start_of(offset)
    if start is None:
        return 0
    view = commit_log.chain.file(start).view()
    return record_store_time(bytes(view[offset - start : offset - start + BODY_AT]))


def _report_lost_end(parts: Parts, scan: LogScan) -> None:
    """Log an error if the log ends before the store time that the checkpoint vouches for."""
    vouched, end = parts.checkpoint.value.physic_msg_timestamp, scan.end_offset
    start = parts.log.chain.start_of(max(end - 1, 0))
    if start is not None and parts.checkpoint.is_known and 0 < scan.last_time < vouched:
        log.error(
            "%s, byte %d: the log ends there, with a message stored at %d ms, but by the checkpoint "
            "those up to %d ms were on the disk: they are lost",
            parts.log.chain.path(start),
            end - start,
            scan.last_time,
            vouched,
        )


def _sync_log(commit_log: CommitLog, begin: int, layer: FileLayer) -> None:
    """Sync the files from ``begin`` on, whose records can be read from now on, and the zeros behind them."""
    for start in commit_log.chain.starts:
        if start + commit_log.chain.file_size > begin:
            layer.sync(commit_log.chain.path(start))


def _write_blank(commit_log: CommitLog, damage: LogDamage) -> None:
    """Write the blank of a file that ends in zeros, as a power loss leaves it, though the log continues.

    Without it a Java broker would read no further, and every start would report damage.
    """
    file = commit_log.chain.file(layout.parse_offset_name(damage.path.name))
    if damage.position + damage.size < file.size or damage.size < END_FILE_MIN_BLANK:
        return
    end = file.data_end(damage.position)
    if any(
        not is_zeros(file.read(at, min(COPY_BYTES, end - at)))
        for at in range(damage.position, end, COPY_BYTES)
    ):
        return
    try:
        file.write(damage.position, encode_blank(damage.size))
    except OSError as error:
        log.warning(
            "%s: no blank was written at its end: %s", damage.path, describe(error, damage.path.parent)
        )


def _set_aside_tail(commit_log: CommitLog, layer: FileLayer, root: Path) -> Path | None:
    """Copy the bytes behind the end of the log to ``setaside/``, and clear them."""
    end = commit_log.written_offset
    target: Path | None = None
    for start in commit_log.chain.starts:
        position = max(end - start, 0)
        if position >= commit_log.chain.file_size:
            continue
        file = commit_log.chain.file(start)
        data_end = file.data_end(position)
        for at in range(position, data_end, COPY_BYTES):
            data = file.read(at, min(COPY_BYTES, data_end - at))
            if is_zeros(data):
                continue
            target = root / SET_ASIDE / f"commitlog-{start + at:020d}"
            layer.make_directory(target.parent)
            layer.save(target, data)
            file.write(at, bytes(len(data)))
    if target is not None:
        last = commit_log.chain.start_of(end)
        path = commit_log.chain.directory if last is None else commit_log.chain.path(last)
        log.warning(
            "%s, byte %d: the log ends there, at %d; the bytes behind were no record and are now in %s",
            path,
            end - (last or 0),
            end,
            target.parent,
        )
    return target


def is_zeros(data: bytes) -> bool:
    """Check for zeros only; compared as a whole, since a preallocated file has a gigabyte of them."""
    return data == bytes(len(data))
