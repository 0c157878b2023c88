"""Finding the state of a store that is opened: after a clean stop, and after a kill or power loss.

==========================  ===========================  ==========================================
What                        clean (no ``abort`` file)    unclean
==========================  ===========================  ==========================================
ConsumeQueues               last file of each            last three; cut at the first odd entry,
                                                         and where the walk begins
Index                       taken as it is               cut where the walk begins
CommitLog is walked from    the last dispatched record   the file that the checkpoint vouches for
… and once more, earlier    if a queue's files are       if a queue's files are missing, be they all
                            missing, be they all         or the last
each record's CRC           checked                      checked
records met                 dispatched                   dispatched
a torn tail                 set aside                    set aside
damage before the tail      reported and passed over     reported and passed over
queue entries past the end  cut                          cut
units of queue entries      taken as they are            none for what is dispatched again
the log is synced           no, it was                   yes: who reads a message will find it again
==========================  ===========================  ==========================================

After an unclean stop only what the checkpoint vouches for is trusted: of what came later the page cache may
show all, and the disk hold none. So entries and keys of the records that are walked are written again, and
synced before anything is vouched for.

Nothing is deleted on a failed check: bytes behind the end of the log are copied to ``setaside/`` before
they are cleared, and they must be cleared, since records of an earlier life would otherwise look true
once the log has grown up to them.

Source: RocketMQ ``store/CommitLog.java`` (recoverNormally, recoverAbnormally),
``store/DefaultMessageStore.java`` (load, recover).
"""

import logging
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
from cometmq.store.index.index import Index
from cometmq.store.log.commit_log import CommitLog, describe
from cometmq.store.parts import Parts
from cometmq.store.progress import Progress
from cometmq.store.queue.consume_queue import ConsumeQueue
from cometmq.store.queue.ledger import Ledger
from cometmq.store.queue.queues import Queues
from cometmq.store.read.seek import record_store_time
from cometmq.store.recovery.log_scan import LogDamage, LogScan
from cometmq.store.recovery.replay import Gap, Replay
from cometmq.store.recovery.torn import stored_without_crc
from cometmq.store.recovery.vouched import mark_open, vouched_start, vouched_time, was_closed

log = logging.getLogger(__name__)

SET_ASIDE = "setaside"
COPY_BYTES = 4 * 1024 * 1024
WRITE_BACK_BYTES = 16 * 1024
"""A queue's entries that wait in memory while the log is walked."""
TOLD_MAX = 5
"""So many queues are named in a warning."""


class Recovered(NamedTuple):
    """What recovery found.

    Attributes:
        clean: whether the store had been closed.
        begin: CommitLog offset from which the log was walked.
        end: behind the last record.
        messages: records walked.
        damages: stretches of the log that are no records.
        gaps: stretches of queues whose messages are lost.
        set_aside: where a torn tail was copied to, or None.
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
    """Load the parts of a store and bring them to one state.

    Args:
        whole: whether the whole log is walked, though less would do for a store that is sound.

    Raises StoreDamaged for a file that cannot be used as it is, OSError if the disk refuses.
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
        queue.truncate(commit_log.chain.end_offset)  # a damaged entry must not pass for a dispatched record
    begin = _begin(parts, clean=clean)
    if whole:
        begin = commit_log.min_offset
    elif (missing := _first_missing(commit_log, queues, ledger)) is not None:
        begin = min(begin, missing)
    if not clean:
        for queue in queues:
            queue.cut(begin)
    for queue in queues:
        queue.recover_ext(trusted=clean)
    scan, replay = _walk(parts, begin, vouched, progress)
    if replay.lagging:
        begin = _known_start(commit_log, min(queue.physical_end for queue in replay.lagging))
        log.warning("%d queues lack files: the log is walked again from %d", len(replay.lagging), begin)
        scan, replay = _walk(parts, begin, vouched, progress, is_last=True)
    _check_sealed(commit_log, scan.end_offset)
    commit_log.written_offset = scan.end_offset
    commit_log.written_time = scan.last_time or parts.checkpoint.value.physic_msg_timestamp
    ledger.cut(scan.end_offset)
    _go_on_where_all_expired(commit_log, queues, ledger)
    if index is not None and index.end_offset >= scan.end_offset:
        index.cut(scan.end_offset, lambda offset: _store_time_at(commit_log, offset))
    set_aside = _set_aside_tail(commit_log, layer, parts.root)
    for queue in queues:
        queue.truncate(scan.end_offset)
        if not clean:
            queue.clear_behind_end()
        queue.correct_min_offset(commit_log.min_offset)
        queue.next_offset = queue.max_offset
    queues.trusted = False
    for damage in scan.damages:
        log.error(
            "%s: %d bytes at %d are damaged: %s", damage.path, damage.size, damage.position, damage.reason
        )
        _put_blank(commit_log, damage)
    if not clean:
        _report_lost_end(parts, scan)
        _sync_log(commit_log, begin, layer)
    try:
        parts.checkpoint.make_if_missing()
        # All that can be read now is on the disk, whatever the machine did before.
        mark_open(layer, parts.root)
    except OSError as error:
        log.warning("that the store is open is not noted: %s", describe(error, parts.root))
    return Recovered(clean, begin, scan.end_offset, replay.messages, scan.damages, replay.gaps, set_aside)


def _check_sealed(commit_log: CommitLog, end: int) -> None:
    """Refuse to take records for damage or a torn tail only because they lack what a setting asks for."""
    offset = stored_without_crc(commit_log, end)
    if offset is not None and (start := commit_log.chain.start_of(offset)) is not None:
        raise SettingsError(
            f"{commit_log.chain.path(start)}, byte {offset - start}: messages from here on were stored "
            "without enabledAppendPropCRC: set forceVerifyPropCRC = false until they have expired"
        )


def _load(parts: Parts, progress: Progress, *, clean: bool) -> None:
    """Find what there is."""
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
    """Dispatch the log from ``begin`` on.

    Unless this ``is_last``, queues that miss messages which may lie before ``begin`` are left out.
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
    """Give the offset behind the last data in the log's files."""
    chain = commit_log.chain
    return chain.starts[-1] + chain.file(chain.starts[-1]).data_end(0) if chain.starts else 0


def _begin(parts: Parts, *, clean: bool) -> int:
    """Give the offset from which the log must be walked."""
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
    return _known_start(commit_log, begin)


def _index_end(parts: Parts, index: Index, begin: int, *, clean: bool) -> int:
    """Cut the index where nobody vouches for it any more, or a file is missing; give where to index from."""
    lost = _lost_index_files(parts.ledger.index_files, index, parts.log.min_offset)
    if clean and index.is_whole and not lost:
        return begin
    index.cut(min([begin, *lost]), lambda offset: _store_time_at(parts.log, offset))
    return index.end_offset


def _lost_index_files(known: Mapping[str, int], index: Index, min_offset: int) -> list[int]:
    """Give where the index files began that are missing, but for those whose records have all expired."""
    there = index.begins()
    begins = sorted({*known.values(), *there.values()})  # files made since then tell where a known one ended
    lost = [first for name, first in known.items() if name not in there]
    ends = [next((end for end in begins if end > first), None) for first in lost]
    return [
        max(first, min_offset)
        for first, end in zip(lost, ends, strict=True)
        if end is None or end >= min_offset
    ]


def _first_missing(commit_log: CommitLog, queues: Queues, ledger: Ledger) -> int | None:
    """Give the offset behind which lie records of queues whose files are gone; None if there are none."""
    names, begins = [], []
    for (topic, queue_id), end in ledger.ends.items():
        queue = queues.find(topic, queue_id)
        begin = 0 if queue is None else queue.physical_end
        if begin < end and end > commit_log.min_offset:
            names.append(f"{topic}-{queue_id}")
            begins.append(_known_start(commit_log, begin))
    if names:
        told = ", ".join(names[:TOLD_MAX]) + (", …" if len(names) > TOLD_MAX else "")
        log.warning("%d queues lack files (%s): their messages are looked for in the log", len(names), told)
    return min(begins, default=None)


def _go_on_where_all_expired(commit_log: CommitLog, queues: Queues, ledger: Ledger) -> None:
    """Let queues whose files are gone, and of whose messages none is left, not begin at 0 again."""
    for (topic, queue_id), end in ledger.ends.items():
        queue = queues.find(topic, queue_id)
        offset = ledger.offsets.get((topic, queue_id), 0)
        if not offset or end > commit_log.min_offset or (queue is not None and queue.max_offset):
            continue
        try:
            queue = queues.get(topic, queue_id)
        except IllegalName as illegal:
            log.warning("where the queue was is not to be used: %s", illegal)
            continue
        log.warning("%s-%d lacks files: it goes on at queue offset %d", topic, queue_id, offset)
        queue.skip_to(offset)
        queue.physical_end = end


def _known_start(commit_log: CommitLog, offset: int) -> int:
    """Give ``offset`` if the log has it, else where the log begins."""
    return commit_log.min_offset if commit_log.chain.start_of(offset) is None else offset


def _ends_with_a_record(queue: ConsumeQueue, commit_log: CommitLog) -> bool:
    """Tell whether the last entry is true: a damaged one must not say where the log's end is."""
    entry = queue.last_message()
    if entry is None or (start := commit_log.chain.start_of(entry.physical_offset)) is None:
        return False
    view = commit_log.chain.file(start).view()
    head = check(view, entry.physical_offset - start, len(view), base_offset=start, crc=Crc.NONE)
    return isinstance(head, RecordHead) and head.size == entry.size


def _store_time_at(commit_log: CommitLog, offset: int) -> int:
    """Give the store time, ms, of the record at a CommitLog offset; 0 if it is not there any more."""
    start = commit_log.chain.start_of(offset)
    if start is None:
        return 0
    view = commit_log.chain.file(start).view()
    return record_store_time(bytes(view[offset - start : offset - start + BODY_AT]))


def _report_lost_end(parts: Parts, scan: LogScan) -> None:
    """Say that messages are lost which the checkpoint vouches for, though no trace of them is left."""
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
    """Sync what was found, since it can be read from now on, and the zeros behind it."""
    for start in commit_log.chain.starts:
        if start + commit_log.chain.file_size > begin:
            layer.sync(commit_log.chain.path(start))


def _put_blank(commit_log: CommitLog, damage: LogDamage) -> None:
    """Close a file that ends in zeros though the log goes on: so a loss of power leaves it at times.

    Without its blank a Java broker would read no further, and every start would call it damaged.
    """
    file = commit_log.chain.file(layout.parse_offset_name(damage.path.name))
    if damage.position + damage.size < file.size or damage.size < END_FILE_MIN_BLANK:
        return
    end = file.data_end(damage.position)
    if any(
        not _is_empty(file.read(at, min(COPY_BYTES, end - at)))
        for at in range(damage.position, end, COPY_BYTES)
    ):
        return
    try:
        file.write(damage.position, encode_blank(damage.size))
    except OSError as error:
        log.warning("%s is not closed: %s", damage.path, describe(error, damage.path.parent))


def _set_aside_tail(commit_log: CommitLog, layer: FileLayer, root: Path) -> Path | None:
    """Copy what lies behind the end of the log to ``setaside/``, and clear it."""
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
            if _is_empty(data):
                continue
            target = root / SET_ASIDE / f"commitlog-{start + at:020d}"
            layer.make_directory(target.parent)
            layer.save(target, data)
            file.write(at, bytes(len(data)))
    if target is not None:
        last = commit_log.chain.start_of(end)
        path = commit_log.chain.directory if last is None else commit_log.chain.path(last)
        log.warning(
            "%s, byte %d: the log ends there, at %d; what lay behind was no record and is now in %s",
            path,
            end - (last or 0),
            end,
            target.parent,
        )
    return target


def _is_empty(data: bytes) -> bool:
    """Tell whether there are only zeros: compared as a whole, for a warmed file has a gigabyte of them."""
    return data == bytes(len(data))
