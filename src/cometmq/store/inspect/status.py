"""The status of a store directory, read from its files; a process that has it open is not disturbed."""

from enum import Enum
from pathlib import Path
from typing import NamedTuple

from cometmq.format import layout
from cometmq.format.checkpoint import Checkpoint
from cometmq.store.directory import StoreDirectory
from cometmq.store.files.finding import Finding
from cometmq.store.inspect.summary import log_end
from cometmq.store.log.commit_log import Pointers
from cometmq.store.log.log_seek import log_offset_by_time


class StoreState(Enum):
    """Whether a store is open, was closed, or needs recovery."""

    CLOSED = "closed"
    OPEN = "open"
    NOT_CLOSED = "not closed"


class StoreStatus(NamedTuple):
    """The status of a store directory.

    Attributes:
        holder: id of the process that has it open, None if there is none.
        pointers: the offsets, by the files.
        at_least: names of the pointers that can be higher: the checkpoint is written only from time to time,
            and a process that has the store open advances them.
        last_time: store time of the last record, ms; 0 if there is none.
        checkpoint: the checkpoint, None if it is missing or damaged.
        findings: files of the CommitLog that cannot be used.
    """

    root: Path
    state: StoreState
    holder: int | None
    pointers: Pointers
    at_least: tuple[str, ...]
    last_time: int
    checkpoint: Checkpoint | None
    findings: list[Finding]


def status_of(store: StoreDirectory) -> StoreStatus:
    """Return the status of a store, from a small part of it. Raises OSError."""
    holder = store.layer.lock_holder(layout.lock_path(store.root))
    written, last_time = log_end(store)
    pointers = Pointers(store.log.min_offset, *[written] * 5)
    at_least: tuple[str, ...] = ()
    state = StoreState.CLOSED
    if holder is not None or not store.was_closed:
        state = StoreState.NOT_CLOSED if holder is None else StoreState.OPEN
        checkpoint = store.checkpoint or Checkpoint()
        flushed, dispatched = (
            min(log_offset_by_time(store.log, time_ms), written)
            for time_ms in (checkpoint.physic_msg_timestamp, checkpoint.logics_msg_timestamp)
        )
        at_least = Pointers._fields[3 if holder is None else 1 :]
        pointers = pointers._replace(
            flushed=flushed, confirmed=max(flushed, dispatched), dispatched=dispatched
        )
    return StoreStatus(
        store.root, state, holder, pointers, at_least, last_time, store.checkpoint, store.findings
    )
