"""Archive a store's closed CommitLog files as Parquet, before retention removes them.

::

    target/log=00000000001073741824/00000000001073741824.parquet    messages of a CommitLog file, in its order
    target/_archive/                                                finished rounds, and the next one's plan

A file is closed once a later one has messages: none of its bytes changes any more. One task reads each split
of it and writes one Parquet file, without a shuffle; the file's footer describes its content. An existing
file is whole, and is not written again by the run that follows a killed one. ``rounds`` decides which files
count.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from cometmq import kernels
from cometmq.format.layout import offset_name
from cometmq.format.sys_flag import TRANSACTION_COMMIT, TRANSACTION_MASK, TRANSACTION_NOT
from cometmq.io.files import Disk
from cometmq.logs import get_logger
from cometmq.spark.files.log_reader import LogReader
from cometmq.spark.files.remote import RemotePath, path_of
from cometmq.spark.files.splits import FilePiece, LogFile, log_files, splits
from cometmq.spark.files.walk import DamagedPart
from cometmq.spark.jobs.export.parquet_files import ParquetFile
from cometmq.spark.jobs.export.rounds import DoneRounds, RoundDone, RoundPlan, round_end, rounds
from cometmq.spark.jobs.export.targets import JobTarget, target_of
from cometmq.spark.jobs.parts import on_parts
from cometmq.spark.jobs.tail import last_begun
from cometmq.spark.jobs.watch import Progress, watched
from cometmq.spark.options import BYTES_PER_PARTITION, ReadOptions
from cometmq.spark.schema import COLUMNS, arrow_schema

log = get_logger(__name__)

STATE: Final = "_archive"
"""The job's own folder: Spark ignores names with an underscore in front."""
NOTE: Final = "cometmq.note"
"""The name of the ``Note`` in a Parquet file's footer."""
IN_QUEUE: Final = (TRANSACTION_NOT, TRANSACTION_COMMIT)
"""Transaction types of messages that are in queues."""
_SCHEMA: Final = arrow_schema()


class Archived(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a run.

    Attributes:
        files: how many CommitLog files it archived.
        end: CommitLog offset up to which the log is archived, except for what was lost.
        damages: damaged ranges in these files, which are in no archive.
        missing: bytes of the log that were removed before they could be archived.
    """

    files: int
    messages: int
    end: int
    damages: int = 0
    missing: int = 0


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a Parquet file of an archive: the messages between two CommitLog offsets.

    Attributes:
        queues: by topic and queue id, the queue offset behind its last message here.
    """

    begin: int
    end: int
    messages: int
    damages: int
    queues: list[tuple[str, int, int]]


class ArchivePlan(RoundPlan, frozen=True, kw_only=True):
    """The plan of a round: whole CommitLog files, cut into tasks of ``bytes_per_task`` bytes."""

    bytes_per_task: int
    broker: str | None


class ArchiveDone(RoundDone, frozen=True, kw_only=True):
    """The result of a round.

    Attributes:
        queues: by topic and queue id, the queue offset behind its last message in the whole archive.
    """

    files: int
    messages: int
    damages: int
    missing: int
    queues: list[tuple[str, int, int]]


class ArchivePart(NamedTuple):
    """The part of one task: pieces of one CommitLog file, between two offsets."""

    file: LogFile
    begin: int
    end: int
    pieces: list[FilePiece]

    @property
    def name(self) -> str:
        """The name of its Parquet file."""
        return f"log={offset_name(self.file.base_offset)}/{offset_name(self.begin)}.parquet"


def archive(
    spark: SparkSession,
    store: Path | str,
    target: Path | str,
    *,
    broker: str | None = None,
    progress: Progress | None = None,
    bytes_per_task: int = BYTES_PER_PARTITION,
) -> Archived:
    """Archive the closed files of a store's log that the target does not have; a broker may serve it.

    Args:
        target: a directory for this store alone, which all executors see at this path, or an address that
            fsspec writes to, ``s3://bucket/archive``.
        broker: name of the store's broker, for the column ``broker``; null by default.
        bytes_per_task: bytes of the log that one task reads.

    Raises:
        SettingsError: there is no store, or the target cannot be written to.
        StoreLocked: another job fills the target.
        OSError: the disk refuses; the next run continues.
    """
    files, place = closed(log_files(path_of(store).absolute())), target_of(target, STATE)
    place.check()
    with place.held(), watched(spark, "archive", progress):
        return _archive(
            spark, files, place, ArchivePlan(begin=0, end=0, bytes_per_task=bytes_per_task, broker=broker)
        )


def closed(files: list[LogFile]) -> list[LogFile]:
    """Return the files of a log that have messages behind them; files ahead of the log are empty."""
    return files[: last_begun(files) or 0]


def archive_end(target: JobTarget) -> tuple[int, dict[tuple[str, int], int]]:
    """Return the CommitLog offset at which an archive ends, and by queue the queue offset behind it."""
    last = _done(target).last()
    return (0, {}) if last is None else (last.next, _by_queue(last.queues))


def _archive(spark: SparkSession, files: list[LogFile], target: JobTarget, wanted: ArchivePlan) -> Archived:
    """Archive round by round; the offsets in ``wanted`` are ignored."""
    over = _done(target)

    def plan(begin: int) -> ArchivePlan | None:
        left = [file for file in files if file.base_offset >= begin]
        if not left:
            return None
        stop = round_end(left[0].base_offset, left[-1].base_offset + left[-1].size)
        last = max((file for file in left if file.base_offset < stop), key=lambda file: file.base_offset)
        return msgspec.structs.replace(wanted, begin=begin, end=last.base_offset + last.size)

    done: list[ArchiveDone] = []
    for planned in rounds(target, STATE, ArchivePlan, over.next_begin, plan):
        before = over.last()
        chosen = [file for file in files if planned.begin <= file.base_offset < planned.end]
        missing = _missing(None if before is None else before.next, chosen)
        if missing:
            log.warning("%s: %d bytes of log were removed before they were archived", target.address, missing)
        queues = {} if before is None else _by_queue(before.queues)
        notes = _write(spark, chosen, target, planned)
        for note in notes:
            queues |= _by_queue(note.queues)
        done.append(
            ArchiveDone(
                begin=planned.begin,
                next=planned.end,
                files=len(chosen),
                messages=sum(note.messages for note in notes),
                damages=sum(note.damages for note in notes),
                missing=missing,
                queues=[(*queue, end) for queue, end in sorted(queues.items())],
            )
        )
        over.add(done[-1])
    return Archived(
        files=sum(one.files for one in done),
        messages=sum(one.messages for one in done),
        end=done[-1].next if done else over.next_begin(),
        damages=sum(one.damages for one in done),
        missing=sum(one.missing for one in done),
    )


def _write(spark: SparkSession, files: list[LogFile], target: JobTarget, plan: ArchivePlan) -> list[Note]:
    """Write the missing Parquet files of a round; return the notes of all, in order."""
    parts = [part for file in files for part in parts_of(file, plan.bytes_per_task)]

    def write(part: ArchivePart) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict(
            {"note": [msgspec.json.encode(write_part(part, target, plan.broker))]}
        )

    kernels.load_if_possible()  # once, so that many workers find them in the cache
    for file in files:
        if not isinstance(file.path, RemotePath):
            Disk().sync(file.path)  # else after a loss of power other messages could take their offsets
    found = on_parts(spark, parts, write, "note binary").collect()
    notes = [msgspec.json.decode(bytes(row["note"]), type=Note) for row in found]
    return sorted(notes, key=lambda note: note.begin)


def parts_of(file: LogFile, bytes_per_task: int) -> Iterator[ArchivePart]:
    """Cut a closed file into parts for tasks; the last part ends at the next file."""
    begin = file.base_offset
    for pieces in splits([file], bytes_per_task) or [[]]:
        is_last = not pieces or pieces[-1].end == file.written
        end = file.base_offset + (file.size if is_last else pieces[-1].end)
        yield ArchivePart(file, begin, end, [piece._replace(more_follows=True) for piece in pieces])
        begin = end


def write_part(part: ArchivePart, target: JobTarget, broker: str | None = None) -> Note:
    """Write a part's Parquet file, unless it exists; return its note."""
    known = _note_of(target, part.name)
    if known is not None and (known.begin, known.end) == (part.begin, part.end):
        return known
    reader = _Reader(broker)
    with target.staging() as folder:
        made = folder / "made.parquet"
        with ParquetFile(made, _SCHEMA) as file:
            ends: dict[tuple[str, int], int] = {}
            for batch in reader.read_pieces(part.pieces):
                file.add(batch)
                ends |= _ends(batch)
            note = Note(
                begin=part.begin,
                end=part.end,
                messages=file.rows,
                damages=reader.damages,
                queues=[(*queue, end) for queue, end in sorted(ends.items())],
            )
            file.note(NOTE, msgspec.json.encode(note).decode())
        target.put(made, part.name)
    return note


def _note_of(target: JobTarget, name: str) -> Note | None:
    """Return the note in the footer of a file; None if there is no file or no note."""
    if not target.exists(name):
        return None
    with target.open(name) as opened:
        texts = pq.read_metadata(opened).metadata or {}
    return msgspec.json.decode(texts[NOTE.encode()], type=Note) if NOTE.encode() in texts else None


class _Reader(LogReader):
    """A reader of all columns that counts damaged ranges."""

    def __init__(self, broker: str | None) -> None:
        super().__init__(ReadOptions((), broker=broker), tuple(COLUMNS))
        self.damages = 0

    def _report_damage(self, damage: DamagedPart | str) -> None:
        self.damages += 1
        super()._report_damage(damage)


def _done(target: JobTarget) -> DoneRounds[ArchiveDone]:
    return DoneRounds(target, STATE, ArchiveDone)


def _by_queue(ends: Iterable[tuple[str, int, int]]) -> dict[tuple[str, int], int]:
    return {(topic, queue_id): end for topic, queue_id, end in ends}


def _ends(batch: pa.RecordBatch) -> dict[tuple[str, int], int]:
    places = pa.Table.from_batches([batch]).select(["topic", "queue_id", "queue_offset"])
    kind = pc.bit_wise_and(batch.column("sys_flag"), pa.scalar(TRANSACTION_MASK, pa.int32()))
    kept = places.filter(pc.is_in(kind, value_set=pa.array(IN_QUEUE, pa.int32())))
    last = kept.group_by(["topic", "queue_id"], use_threads=False).aggregate([("queue_offset", "last")])
    return {(row["topic"], row["queue_id"]): row["queue_offset_last"] + 1 for row in last.to_pylist()}


def _missing(end: int | None, files: list[LogFile]) -> int:
    missing = 0
    for file in files:
        missing += 0 if end is None else file.base_offset - end
        end = file.base_offset + file.size
    return missing
