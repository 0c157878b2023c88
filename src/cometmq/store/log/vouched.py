"""The part of the CommitLog that is surely on the disk: invalid bytes in it are damage, not a torn tail.

A killed process loses nothing that it wrote. Only a machine that stops loses what was not synced, and then
the checkpoint has the store time up to which everything was. The file ``abort`` tells the two cases apart:
its second line names the boot of the machine in which the store was opened (its first is the process id, as
in RocketMQ).
"""

import os
from pathlib import Path
from typing import Final

from cometmq.format import layout
from cometmq.format.checkpoint import Checkpoint
from cometmq.format.checksum import Crc
from cometmq.format.record import HEAD_MAX_SIZE, MAGIC_AT, RecordHead
from cometmq.format.scan import Stop, StopReason, check
from cometmq.io.files import File, FileLayer
from cometmq.io.regular import NotRegularFile
from cometmq.store.log.commit_log import CommitLog

ALL: Final = 2**63 - 1
"""A store time later than all others: everything is vouched for."""


def mark_open(layer: FileLayer, root: Path) -> None:
    """Write ``abort``: the store is open, in this boot of the machine. Raises OSError."""
    layer.save(layout.abort_path(root), f"{os.getpid()}\n{layer.life(root)}\n".encode())


def vouched_time(layer: FileLayer, root: Path, checkpoint: Checkpoint | None) -> int:
    """Return the store time, ms, up to which all that was written is in the files.

    ALL if the checkpoint is lost or unreadable (None): bytes that are no records are reported then.
    """
    if checkpoint is None or was_closed(layer, root) or _is_same_boot(layer, root):
        return ALL
    return checkpoint.physic_msg_timestamp


def was_closed(layer: FileLayer, root: Path) -> bool:
    """Check whether the store was closed."""
    return not layer.exists(layout.abort_path(root))


def vouched_start(commit_log: CommitLog, checkpoint: Checkpoint) -> int:
    """Return the start of the last file whose first two records are older than the checkpoint's time.

    Two, since no checksum covers a store time: one damaged time must not vouch for a file.
    """
    for start in reversed(commit_log.chain.starts):
        file = commit_log.chain.file(start)
        first = _record_at(file, start, 0, commit_log.crc)
        if not (isinstance(first, RecordHead) and 0 < first.store_time <= checkpoint.recovery_time()):
            continue
        second = _record_at(file, start, first.size, Crc.NONE)
        if not isinstance(second, RecordHead) or second.store_time <= checkpoint.recovery_time():
            return start
    return commit_log.min_offset


def _record_at(file: File, start: int, position: int, crc: Crc) -> RecordHead | Stop:
    """Check for a record at a position of the file that begins at ``start``; read no more than that."""
    data = file.read(position, HEAD_MAX_SIZE)
    found = check(data, 0, len(data), base_offset=start + position, crc=crc)
    if isinstance(found, Stop) and found.reason is StopReason.LIMIT:
        data = file.read(position, int.from_bytes(data[:MAGIC_AT], "big"))
        found = check(data, 0, len(data), base_offset=start + position, crc=crc)
    return found


def _is_same_boot(layer: FileLayer, root: Path) -> bool:
    """Check that the store is on the same file system, and the machine in the same boot, as when opened."""
    try:
        text = layer.load(layout.abort_path(root)).decode(errors="replace")
    except NotRegularFile:
        return False
    _, _, life = text.partition("\n")
    return life.strip() == layer.life(root) != ""
