"""Finding the state of a store that is opened: after a clean stop, and after a kill or power loss.

==========================  ===========================  ==========================================
What                        clean (no ``abort`` file)    unclean
==========================  ===========================  ==========================================
ConsumeQueues               last file of each            last three; cut at the first odd entry
CommitLog is walked from    the last dispatched record   the file that the checkpoint vouches for
each record's CRC           checked                      checked
records met                 dispatched                   dispatched; what is there is passed over
a torn tail                 set aside                    set aside
damage before the tail      reported and passed over     reported and passed over
queue entries past the end  cut                          cut
==========================  ===========================  ==========================================

Nothing is deleted on a failed check: bytes behind the end of the log are copied to ``setaside/`` before
they are cleared, and they must be cleared, since records of an earlier life would otherwise look true
once the log has grown up to them.

Source: RocketMQ ``store/CommitLog.java`` (recoverNormally, recoverAbnormally),
``store/DefaultMessageStore.java`` (load, recover).
"""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from cometmq.format.checkpoint import Checkpoint
from cometmq.format.delay_level import DelayLevels
from cometmq.format.record import BODY_AT, RecordHead
from cometmq.format.scan import check
from cometmq.io.files import FileLayer
from cometmq.io.open_files import OpenFiles
from cometmq.store.commit_log import CommitLog
from cometmq.store.index import Index
from cometmq.store.log_scan import Damage, LogScan
from cometmq.store.queues import Queues
from cometmq.store.replay import Gap, Replay
from cometmq.store.seek import record_store_time

log = logging.getLogger(__name__)

Progress = Callable[[int, int], None]
"""Told the bytes done and the bytes in all."""

SET_ASIDE = "setaside"
COPY_BYTES = 4 * 1024 * 1024


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
    damages: list[Damage]
    gaps: list[Gap]
    set_aside: Path | None


def recover(
    commit_log: CommitLog,
    queues: Queues,
    index: Index | None,
    *,
    clean: bool,
    checkpoint: Checkpoint,
    delay_levels: DelayLevels,
    files: OpenFiles,
    root: Path,
    progress: Progress | None = None,
) -> Recovered:
    """Bring the loaded parts to one state. Raises OSError."""
    begin = _begin(commit_log, queues, index, clean=clean, checkpoint=checkpoint)
    for queue in queues:
        queue.truncate(commit_log.chain.end_offset)  # a damaged entry must not pass for a dispatched record
    scan = LogScan(commit_log, begin, vouched_time=checkpoint.physic_msg_timestamp)
    replay = Replay(queues, index, delay_levels)
    for chunk in scan:
        replay.dispatch(chunk)
        queues.write_back(COPY_BYTES)
        files.drop_pages()
        if progress is not None:
            progress(chunk.end_offset - begin, commit_log.chain.end_offset - begin)
    commit_log.written_offset = scan.end_offset
    commit_log.written_time = scan.last_time or checkpoint.physic_msg_timestamp
    if index is not None and index.end_offset >= scan.end_offset:
        _rebuild_index_tail(commit_log, index, delay_levels)
    set_aside = _set_aside_tail(commit_log, files.layer, root)
    for queue in queues:
        queue.truncate(scan.end_offset)
        queue.correct_min_offset(commit_log.min_offset)
        queue.next_offset = queue.max_offset
    for damage in scan.damages:
        log.error(
            "%s: %d bytes at %d are damaged: %s", damage.path, damage.size, damage.position, damage.reason
        )
    return Recovered(clean, begin, scan.end_offset, replay.messages, scan.damages, replay.gaps, set_aside)


def _begin(
    commit_log: CommitLog, queues: Queues, index: Index | None, *, clean: bool, checkpoint: Checkpoint
) -> int:
    """Give the offset from which the log must be walked."""
    first = commit_log.min_offset
    begin = max((queue.physical_end for queue in queues), default=first)
    if not clean:
        begin = min(begin, vouched_start(commit_log, checkpoint))
    if index is not None and not (clean and index.is_whole):
        begin = min(begin, index.end_offset)
    return begin if commit_log.chain.start_of(begin) is not None else first


def vouched_start(commit_log: CommitLog, checkpoint: Checkpoint) -> int:
    """Give the start of the last file whose first record is older than what the checkpoint vouches for."""
    for start, file in reversed(commit_log.files()):
        view = file.view()
        head = check(view, 0, len(view), base_offset=start)
        if not isinstance(head, RecordHead):
            continue
        if 0 < record_store_time(bytes(view[:BODY_AT])) <= checkpoint.recovery_time():
            return start
    return commit_log.min_offset


def _rebuild_index_tail(commit_log: CommitLog, index: Index, delay_levels: DelayLevels) -> None:
    """Remove the index files that know more than the log holds, and index their stretch again."""
    index.remove_from(commit_log.written_offset)
    begin = index.end_offset if index.end_offset >= 0 else commit_log.min_offset
    replay = Replay(None, index, delay_levels)
    for chunk in LogScan(commit_log, begin, commit_log.written_offset, verify_crc=False):
        replay.dispatch(chunk)


def _set_aside_tail(commit_log: CommitLog, layer: FileLayer, root: Path) -> Path | None:
    """Copy what lies behind the end of the log to ``setaside/``, and clear it."""
    end = commit_log.written_offset
    target: Path | None = None
    for start, file in commit_log.files():
        position = max(end - start, 0)
        if position >= commit_log.chain.file_size:
            continue
        data_end = file.data_end(position)
        for at in range(position, data_end, COPY_BYTES):
            data = file.read(at, min(COPY_BYTES, data_end - at))
            if not data.strip(b"\0"):
                continue
            target = root / SET_ASIDE / f"commitlog-{start + at:020d}"
            layer.make_directory(target.parent)
            layer.save(target, data)
            file.write(at, bytes(len(data)))
    if target is not None:
        log.warning(
            "the log ends at %d; what lay behind it was no record and is now in %s", end, target.parent
        )
    return target
