"""What the disk surely holds of the CommitLog: bytes there that are no records are damage, not a torn tail.

A killed process loses nothing that it wrote. Only a machine that stops takes away what was not synced, and
then the checkpoint says up to which store time all was. Which of the two happened tells the file ``abort``:
its second line names the run of the machine in which the store was opened (its first is the process id, as
RocketMQ writes it).
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
from cometmq.store.log.commit_log import CommitLog

ALL: Final = 2**63 - 1
"""A store time after all others: everything is vouched for."""


def mark_open(layer: FileLayer, root: Path) -> None:
    """Say that the store is open, and in which run of the machine. Raises OSError."""
    layer.save(layout.abort_path(root), f"{os.getpid()}\n{layer.life(root)}\n".encode())


def vouched_time(layer: FileLayer, root: Path, checkpoint: Checkpoint | None) -> int:
    """Give the store time, ms, up to which all that was written is in the files.

    A checkpoint that is lost, or that cannot be read, gives the benefit of the doubt.
    """
    if checkpoint is None or was_closed(layer, root) or _has_run_on(layer, root):
        return ALL
    return checkpoint.physic_msg_timestamp


def was_closed(layer: FileLayer, root: Path) -> bool:
    """Tell whether the store was closed."""
    return not layer.exists(layout.abort_path(root))


def vouched_start(commit_log: CommitLog, checkpoint: Checkpoint) -> int:
    """Give the start of the last file whose first records are older than what the checkpoint vouches for.

    Two of them, since a store time is under no checksum: one damaged time must not vouch for a file.
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
    """Look for a record at a position of the file that begins at ``start``; no more of it is read."""
    data = file.read(position, HEAD_MAX_SIZE)
    found = check(data, 0, len(data), base_offset=start + position, crc=crc)
    if isinstance(found, Stop) and found.reason is StopReason.LIMIT:
        data = file.read(position, int.from_bytes(data[:MAGIC_AT], "big"))
        found = check(data, 0, len(data), base_offset=start + position, crc=crc)
    return found


def _has_run_on(layer: FileLayer, root: Path) -> bool:
    """Tell whether the machine runs as it did when the store was opened."""
    _, _, life = layer.load(layout.abort_path(root)).decode(errors="replace").partition("\n")
    return life.strip() == layer.life(root) != ""
