"""Summarize a store directory: its files, topics, time range and state."""

from pathlib import Path
from typing import NamedTuple

from cometmq.format import layout
from cometmq.format.checkpoint import Checkpoint
from cometmq.format.checksum import Crc
from cometmq.format.index import FIRST_ENTRY
from cometmq.format.queue_entry import SIZE
from cometmq.format.record import HEAD_MAX_SIZE, RecordHead
from cometmq.format.scan import check, find_next_record
from cometmq.io.files import File
from cometmq.store.directory import StoreDirectory
from cometmq.store.files.finding import Finding
from cometmq.store.files.folders import files_in
from cometmq.store.log.seek import record_store_time

STEP_BYTES = 64 * 1024


class TopicLine(NamedTuple):
    """One topic: the number of its queues with files, and of the messages that their offsets span."""

    topic: str
    queues: int
    messages: int


class IndexLine(NamedTuple):
    """One index file; times in ms."""

    name: str
    begin_time: int
    end_time: int
    entries: int
    entries_max: int


class Summary(NamedTuple):
    """The summary of a store directory. Times in ms, 0 if there is no message.

    Attributes:
        was_closed: False if it needs recovery, or is open now.
        holder: id of the process that has it open, None if there is none.
        log_begin: CommitLog offset of the first byte.
        log_end: CommitLog offset behind the last record.
        findings: files that cannot be used.
    """

    root: Path
    was_closed: bool
    holder: int | None
    log_files: int
    log_file_size: int
    log_begin: int
    log_end: int
    first_time: int
    last_time: int
    topics: list[TopicLine]
    index_files: list[IndexLine]
    checkpoint: Checkpoint | None
    tables: list[str]
    findings: list[Finding]


def summarize(store: StoreDirectory) -> Summary:
    """Return the summary of a store, from a small part of it. Raises OSError."""
    findings = list(store.findings)
    chain = store.log.chain
    first = _first_record(store, chain.starts[0]) if chain.starts else None
    end, last_time = log_end(store)
    config = layout.config_dir(store.root)
    return Summary(
        root=store.root,
        was_closed=store.was_closed,
        holder=store.layer.lock_holder(layout.lock_path(store.root)),
        log_files=len(chain.starts),
        log_file_size=chain.file_size,
        log_begin=chain.first_offset,
        log_end=end,
        first_time=first or 0,
        last_time=last_time,
        topics=_topics(store, findings),
        index_files=[
            IndexLine(
                view.path.name,
                view.header.begin_time,
                view.header.end_time,
                view.header.next_entry - FIRST_ENTRY,
                view.entry_count - FIRST_ENTRY,
            )
            for view in store.index(findings)
        ],
        checkpoint=store.checkpoint,
        tables=[name for name in files_in(store.layer, config) if name.endswith(".json")],
        findings=findings,
    )


def _first_record(store: StoreDirectory, start: int) -> int | None:
    """Return the store time of a file's first record, ms; None if it has none."""
    file = store.log.chain.file(start)
    view = file.view()
    found = find_next_record(view, 0, base_offset=start, end=file.data_end(0), crc=store.log.crc)
    return None if found is None else record_store_time(bytes(view[found : found + HEAD_MAX_SIZE]))


def log_end(store: StoreDirectory) -> tuple[int, int]:
    """Return the CommitLog offset behind the last record, and its store time, ms."""
    for start in reversed(store.log.chain.starts):
        last = _last_record(store.log.chain.file(start), start, store.log.crc)
        if last is not None:
            return start + last.position + last.size, last.store_time
    return store.log.min_offset, 0


def _last_record(file: File, start: int, crc: Crc) -> RecordHead | None:
    """Find a file's last record, searching backwards from the end of its data in growing steps."""
    view, end = file.view(), file.data_end(0)
    step = STEP_BYTES
    while True:
        position = find_next_record(view, max(end - step, 0), base_offset=start, end=end, crc=crc)
        last: RecordHead | None = None
        while position is not None and isinstance(
            found := check(view, position, end, base_offset=start, crc=crc), RecordHead
        ):
            last, position = found, position + found.size
        if last is not None or step >= end:
            return last
        step *= 16


def _topics(store: StoreDirectory, findings: list[Finding]) -> list[TopicLine]:
    lines: dict[str, TopicLine] = {}
    for queue in store.queues(findings):
        before = lines.get(queue.topic, TopicLine(queue.topic, 0, 0))
        messages = max(queue.written_end() - queue.chain.first_offset // SIZE, 0)
        lines[queue.topic] = TopicLine(queue.topic, before.queues + 1, before.messages + messages)
    return list(lines.values())
