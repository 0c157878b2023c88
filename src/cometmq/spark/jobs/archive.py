"""Archiving a store's closed CommitLog files as Parquet, before retention removes them.

::

    target/log=00000000001073741824/00000000001073741824.parquet    messages of a CommitLog file, in its order
    target/log=00000000001073741824/_00000000001073741824.json      what they are, and where their queues end
    target/_archive/                                                a run under way

A file is closed once messages lie in a later one: no byte of it changes any more. Each split of it is one
task's, which writes one Parquet file, with no shuffle. Once all splits of a CommitLog file are there, and on
the disk, their directory is renamed to where readers find it: it is there whole or not at all, and which
directories are there is all that is remembered. What a killed run has made in ``_archive/`` the next one
takes up.
"""

import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.parquet import ParquetWriter
from pyspark.sql import SparkSession
from pyspark.sql.datasource import InputPartition

from cometmq import kernels
from cometmq.format.layout import offset_name
from cometmq.format.sys_flag import TRANSACTION_COMMIT, TRANSACTION_MASK, TRANSACTION_NOT
from cometmq.io.files import Disk, FileLayer
from cometmq.spark.jobs.queue_files import attempt
from cometmq.spark.jobs.targets import LOCK, held
from cometmq.spark.jobs.watch import Progress, watched
from cometmq.spark.log_reader import LogReader
from cometmq.spark.options import BYTES_PER_PARTITION, ReadOptions
from cometmq.spark.remote import RemotePath, path_of
from cometmq.spark.schema import COLUMNS, arrow_schema
from cometmq.spark.splits import LogFile, Piece, log_files, splits
from cometmq.spark.walk import Damage
from cometmq.store.rebuild import remove_tree

log = logging.getLogger(__name__)

STATE: Final = "_archive"
"""Spark passes over names that begin so."""
PLACE: Final = "log={}"
ROW_GROUP_BYTES: Final = 32 * 1024 * 1024
"""Of a Parquet file: so much a task keeps in memory before it writes, as readers do later."""
IN_QUEUE: Final = (TRANSACTION_NOT, TRANSACTION_COMMIT)
"""Transaction types of messages that consumers get."""
SIZE_BYTES: Final = 4
"""With which a record begins: they are not all zeros."""
_SCHEMA: Final = arrow_schema()


class Archived(msgspec.Struct, frozen=True, kw_only=True):
    """What a run did.

    Attributes:
        files: how many CommitLog files it archived.
        end: CommitLog offset up to which the target has all that was not lost.
        damages: stretches of bytes in these files that are no message, and are in no archive.
        missing: bytes of the log that were removed before they could be archived.
    """

    files: int
    messages: int
    end: int
    damages: int = 0
    missing: int = 0


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """What a Parquet file of an archive is: the messages between two CommitLog offsets.

    Attributes:
        queues: by topic and queue id, the queue offset behind its last message here.
    """

    begin: int
    end: int
    messages: int
    damages: int
    queues: list[tuple[str, int, int]]


class Part(NamedTuple):
    """What one task archives: pieces of one CommitLog file, between two offsets."""

    file: LogFile
    begin: int
    end: int
    pieces: list[Piece]

    @property
    def note(self) -> str:
        """The name of its note."""
        return f"_{offset_name(self.begin)}.json"


def archive(
    spark: SparkSession,
    store: Path | str,
    target: Path | str,
    *,
    broker: str | None = None,
    progress: Progress | None = None,
    bytes_per_task: int = BYTES_PER_PARTITION,
) -> Archived:
    """Archive the closed files of the store's log that the target does not have; a broker may serve it.

    Args:
        target: a directory for this store alone, that all executors see at this path.
        broker: name of the broker whose store it is, for the column ``broker``, which is null without.
        bytes_per_task: bytes of the log that one task reads.

    Raises:
        SettingsError: there is no store.
        StoreLocked: another job fills the target.
        OSError: the disk refuses; the next run goes on.
    """
    root, place, layer = path_of(store).absolute(), Path(target).absolute(), Disk()
    with held(layer, place, STATE) as state:
        run = _Run(spark, layer, place, state / str(bytes_per_task), broker)
        return run.run(closed(log_files(root)), bytes_per_task, progress)


def closed(files: list[LogFile]) -> list[LogFile]:
    """Give those files of a log that have messages behind them; the next ones may be there, and be empty."""
    begun = [number for number, file in enumerate(files) if _has_begun(file)]
    return files[: begun[-1]] if begun else []


def notes(layer: FileLayer, target: Path) -> list[Note]:
    """Give what is in an archive, in the order of the log."""
    found = [
        msgspec.json.decode(layer.load(target / directory / name), type=Note)
        for directory in directories(layer, target)
        for name in layer.names(target / directory)
        if name.endswith(".json")
    ]
    return sorted(found, key=lambda note: note.begin)


def directories(layer: FileLayer, target: Path) -> list[str]:
    """Give the names of the directories of an archive, one for each CommitLog file."""
    return [name for name in layer.names(target) if name.startswith(PLACE.format(""))]


class _Run:
    """One run: makes in ``building`` what it then moves into ``place``."""

    def __init__(
        self, spark: SparkSession, layer: FileLayer, place: Path, building: Path, broker: str | None
    ) -> None:
        self._spark = spark
        self._layer = layer
        self._place = place
        self._building = building
        self._broker = broker

    def run(self, files: list[LogFile], bytes_per_task: int, progress: Progress | None) -> Archived:
        before = notes(self._layer, self._place)
        end = before[-1].end if before else None
        new = [file for file in files if end is None or file.base_offset >= end]
        parts = [part for file in new for part in parts_of(file, bytes_per_task)]
        self._take_up({_name(file) for file in new})
        missing = _missing(end, new)
        if missing:
            log.warning("%s: %d bytes of log were removed before they were archived", self._place, missing)
        with watched(self._spark, "archive", progress):
            self._write([part for part in parts if not self._is_made(part)])
        for file in new:
            self._publish(file)
        remove_tree(self._layer, self._building)
        made = [note for note in notes(self._layer, self._place) if end is None or note.begin >= end]
        return Archived(
            files=len(new),
            messages=sum(note.messages for note in made),
            end=max((note.end for note in made), default=end or 0),
            damages=sum(note.damages for note in made),
            missing=missing,
        )

    def _take_up(self, names: set[str]) -> None:
        """Keep what an earlier run has made of these files, if it cut them likewise."""
        for name in self._layer.names(self._building.parent):
            if name not in (LOCK, self._building.name):
                remove_tree(self._layer, self._building.parent / name)
        for name in self._layer.names(self._building):
            if name not in names:
                remove_tree(self._layer, self._building / name)
        for name in names:
            self._layer.make_directory(self._building / name)

    def _is_made(self, part: Part) -> bool:
        return self._layer.exists(self._building / _name(part.file) / part.note)

    def _write(self, parts: list[Part]) -> None:
        building, broker = self._building, self._broker

        def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch.column("id").to_pylist():
                    messages = write_part(parts[number or 0], building, broker)
                    yield pa.RecordBatch.from_pylist([{"messages": messages}])

        if parts:
            kernels.load_if_possible()  # once, before many workers do: they find it in the cache
            for path in {part.file.path for part in parts}:
                if not isinstance(path, RemotePath):
                    self._layer.sync(path)  # else a loss of power could put other messages in their places
            numbers = self._spark.range(0, len(parts), 1, len(parts))
            numbers.mapInArrow(write, "messages bigint").collect()

    def _publish(self, file: LogFile) -> None:
        directory = self._building / _name(file)
        self._layer.rename(directory, self._place / PLACE.format(directory.name))


def parts_of(file: LogFile, bytes_per_task: int) -> Iterator[Part]:
    """Cut a closed file into what tasks archive; the last part goes up to the next file."""
    begin = file.base_offset
    for pieces in splits([file], bytes_per_task) or [[]]:
        is_last = not pieces or pieces[-1].end == file.written
        end = file.base_offset + (file.size if is_last else pieces[-1].end)
        yield Part(file, begin, end, [piece._replace(more_follows=True) for piece in pieces])
        begin = end


def write_part(part: Part, building: Path, broker: str | None = None) -> int:
    """Write a part's Parquet file, then its note, into the directory of its CommitLog file; give how many."""
    layer, reader = Disk(), _Reader(broker)
    place = building / _name(part.file)
    with attempt(layer, building) as directory:
        path = directory / f"{offset_name(part.begin)}.parquet"
        messages, ends = _write_rows(path, reader.read(InputPartition(part.pieces)))
        layer.sync(path)
        note = Note(
            begin=part.begin,
            end=part.end,
            messages=messages,
            damages=reader.damages,
            queues=[(*queue, end) for queue, end in sorted(ends.items())],
        )
        layer.rename(path, place / path.name)
        layer.save(place / part.note, msgspec.json.encode(note))
    return messages


class _Reader(LogReader):
    """A reader of all columns that counts what is damaged."""

    def __init__(self, broker: str | None) -> None:
        super().__init__(ReadOptions((), broker=broker), tuple(COLUMNS))
        self.damages = 0

    def _tell(self, damage: Damage | str) -> None:
        self.damages += 1
        super()._tell(damage)


def _write_rows(path: Path, batches: Iterable[pa.RecordBatch]) -> tuple[int, dict[tuple[str, int], int]]:
    """Write batches; give how many rows there are, and the queue offset behind the last of each queue."""
    messages, ends = 0, dict[tuple[str, int], int]()
    with ParquetWriter(path, _SCHEMA, compression="zstd") as writer:
        waiting: list[pa.RecordBatch] = []
        for batch in batches:
            waiting.append(batch)
            messages += batch.num_rows
            ends |= _ends(batch)
            if sum(one.nbytes for one in waiting) >= ROW_GROUP_BYTES:
                writer.write_table(pa.Table.from_batches(waiting, _SCHEMA))
                waiting = []
        writer.write_table(pa.Table.from_batches(waiting, _SCHEMA))
    return messages, ends


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


def _has_begun(file: LogFile) -> bool:
    if not file.written:
        return False
    if isinstance(file.path, RemotePath):
        return any(file.path.fetch(0, SIZE_BYTES))
    with file.path.open("rb") as opened:
        return any(opened.read(SIZE_BYTES))


def _name(file: LogFile) -> str:
    return offset_name(file.base_offset)
