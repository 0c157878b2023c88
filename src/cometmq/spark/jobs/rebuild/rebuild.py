"""Rebuild ConsumeQueues and Index from the CommitLog alone, on as many machines as Spark has.

The files are those of ``cometmq.store.recovery.rebuild``, byte for byte, and replace the old ones in the same
way. All executors must see the store's directory at the same path.

The plan::

    scan     splits of the log ──► entries by queue and stretch, keys by stretch    rebuild/scanned (Parquet)
    queues   entries ──► partition by queue ──► sort by place in the log ──► rebuild/consumequeue/
    index    keys ──► number them ──► partition by index file ──► sort ──► rebuild/blocks/ ──► rebuild/index/
    swap     rebuild/consumequeue and rebuild/index take their places

A run after a killed one continues it: a file in ``rebuild/`` under its final name is whole, and is not
written again, as long as the log is the one in ``rebuild/manifest.json``.

Where the log ends, and what between its records is damage, all pieces show together, by recovery's rules
(``verify.log``); records behind the end are left out by who reads the rows. The driver reads no more of the
log than the first record of each damaged range, to say why it is damaged.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator
from itertools import compress
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import broadcast, col, lit

from cometmq import kernels
from cometmq.errors import SettingsError
from cometmq.format import layout
from cometmq.format.checkpoint import Checkpoint
from cometmq.format.delay_level import SCHEDULE_TOPIC
from cometmq.io.clock import SystemClock
from cometmq.io.files import Disk
from cometmq.spark.files.remote import RemotePath, path_of, spark_path
from cometmq.spark.files.splits import FilePiece, splits
from cometmq.spark.jobs.memory import peak_bytes
from cometmq.spark.jobs.parts import on_parts, shuffle_tasks
from cometmq.spark.jobs.piece_scan import why_not
from cometmq.spark.jobs.rebuild import entries, index_files, queue_files
from cometmq.spark.jobs.rebuild.entries import Rules
from cometmq.spark.jobs.rebuild.index_files import Keys, blocks_of, ranked
from cometmq.spark.jobs.rebuild.queue_files import QueuePart
from cometmq.spark.jobs.stores import log_files_of
from cometmq.spark.jobs.verify.log import Kept, LogSeen, LostStretch, join_pieces
from cometmq.spark.jobs.watch import Progress, watched
from cometmq.spark.options import BYTES_PER_PARTITION
from cometmq.store.directory import StoreDirectory
from cometmq.store.files.folders import queues_in, topics_in
from cometmq.store.log.log_scan import NO_RECORD, LogDamage
from cometmq.store.recovery.rebuild import (
    BUILD_DIRECTORY,
    OLD_SUFFIX,
    Rebuilt,
    open_locked,
    remove_tree,
    swap_in,
)
from cometmq.store.settings import StoreSettings

MANIFEST: Final = "manifest.json"
SCANNED: Final = "scanned"
SUCCESS: Final = "_SUCCESS"
"""The file that Spark leaves in a directory that is complete."""
MADE: Final = "made bigint, peak_bytes bigint"


def rebuild(
    spark: SparkSession,
    directory: Path | str,
    settings: StoreSettings | None = None,
    *,
    progress: Progress | None = None,
    bytes_per_task: int = BYTES_PER_PARTITION,
) -> Rebuilt:
    """Replace ``consumequeue/`` and ``index/`` of a closed store by files built from its CommitLog.

    A checkpoint is written if there is none, so that a broker that opens the store trusts the new files.

    Args:
        settings: of the broker; by default sizes are those of the present files, and delay levels RocketMQ's.
        bytes_per_task: bytes of the log that one task scans.

    Raises:
        StoreLocked: a process has it open.
        StoreDamaged: a file of the CommitLog is missing or has a wrong length.
        SettingsError: there is no store, it is not on a disk, or its sizes are unknown.
        OSError: the disk refuses; the old files stay.
    """
    root, layer, clock = path_of(directory).absolute(), Disk(), SystemClock()
    if isinstance(root, RemotePath):
        raise SettingsError(
            f"{root}: a rebuild writes into the store, which must be on a disk that all executors see: copy "
            "it to one, or rebuild it where the broker keeps it"
        )
    begin_ms = clock.monotonic_ms()
    with open_locked(root, settings, layer) as store:
        kernels.load_if_possible()  # once, so that many workers find them in the cache
        rebuilt = _Job(spark, store, layer, progress).run(bytes_per_task)
    return rebuilt._replace(duration_ms=clock.monotonic_ms() - begin_ms)


class _Job:
    """One rebuild of one store."""

    def __init__(
        self, spark: SparkSession, store: StoreDirectory, layer: Disk, progress: Progress | None
    ) -> None:
        self._spark = spark
        self._store = store
        self._layer = layer
        self._progress = progress
        self._building = store.root / BUILD_DIRECTORY
        self._tasks = shuffle_tasks(store.data_bytes())
        self._peaks = [0]
        self._kept = Kept([], [])  # of the log, known once it is scanned

    def run(self, bytes_per_task: int) -> Rebuilt:
        """Run all steps; the caller fills in the duration."""
        self._prepare()
        seen = self._scan_all(bytes_per_task)
        self._kept = seen.kept
        made = self._write_queues()
        gaps = queue_files.load_gaps(self._layer, self._building)
        delayed = self._count_delayed()
        index_count = self._write_index() if self._store.settings.message_index_enable else 0
        swap_in(self._store, self._layer, self._building)
        remove_tree(self._layer, self._building)
        if self._store.checkpoint is None:
            self._vouch(seen.last_time)
        return Rebuilt(
            messages=seen.messages,
            queues=made,
            index_files=index_count,
            bytes=seen.end_offset - seen.begin_offset,
            duration_ms=0,
            damages=[self._damage(lost) for lost in seen.lost],
            gaps=gaps,
            delayed=delayed,
            delay_levels=self._store.settings.message_delay_level,
            peak_bytes=max(self._peaks),
        )

    def _prepare(self) -> None:
        """Clear the build directory, unless an earlier run began with the same log and sizes."""
        layer, building, store = self._layer, self._building, self._store
        settings, starts = store.settings, store.log.chain.starts
        manifest = {
            "begin": store.log.min_offset,
            "bytes": store.data_bytes(),
            "vouched_time": store.vouched_time,
            "modified_ms": layer.modified_ms(store.log.chain.path(starts[-1])) if starts else 0,
            "queue_file_size": settings.queue_file_size,
            "slots": settings.max_hash_slot_num,
            "entries": settings.max_index_num,
            "delays_ms": store.delay_levels.delays_ms,
        }
        data, path = msgspec.json.encode(manifest), building / MANIFEST
        if not layer.exists(path) or layer.load(path) != data:
            remove_tree(layer, building)
            layer.make_directory(building)
            layer.save(path, data)
        for left in (building / queue_files.ATTEMPTS, layout.index_dir(building)):
            remove_tree(layer, left)
        for directory in (layout.consume_queues_dir(building), layout.index_dir(building)):
            remove_tree(layer, directory.with_name(directory.name + OLD_SUFFIX))
        layer.make_directory(layout.consume_queues_dir(building))

    def _scan_all(self, bytes_per_task: int) -> LogSeen:
        """Scan the log, unless done before; return what all pieces show together."""
        store, place = self._store, self._building / SCANNED
        chain = store.log.chain
        if not self._layer.exists(place / SUCCESS):
            parts = splits(log_files_of(store), bytes_per_task)
            rules = Rules(store.settings.crc, store.delay_levels, store.settings.message_index_enable)
            vouched_time = store.vouched_time

            def scan(split: list[FilePiece]) -> Iterator[pa.RecordBatch]:
                return entries.batches(entries.scanned(split, rules, vouched_time))

            scanned = on_parts(self._spark, parts, scan, entries.SCHEMA)
            with watched(self._spark, "scan", self._progress):
                scanned.write.partitionBy("kind").mode("overwrite").parquet(spark_path(place))
        rows = self._read(entries.PIECE).select("data", "peak_bytes").collect()
        self._peaks += [row["peak_bytes"] for row in rows]
        pieces = [pickle.loads(row["data"]) for row in rows]  # noqa: S301  a task of this job made it
        return join_pieces(pieces, chain.starts, chain.file_size, store.vouched_time)

    def _damage(self, lost: LostStretch) -> LogDamage:
        """Describe a damaged range of the log, by its first bytes. Raises OSError."""
        log = self._store.log
        start = log.chain.start_of(lost.begin)
        assert start is not None, "a piece of the file was scanned"
        path, position = log.chain.path(start), lost.begin - start
        reason = why_not(path, log.chain.file_size, start, position, log.crc) or NO_RECORD
        return LogDamage(path, position, lost.end - lost.begin, reason)

    def _read(self, kind: str) -> DataFrame:
        place = spark_path(self._building / SCANNED)
        return self._spark.read.schema(entries.SCHEMA).parquet(place).filter(col("kind") == kind)

    def _write_queues(self) -> int:
        """Write the missing queues; return the number of all."""
        building, file_size, kept = self._building, self._store.settings.queue_file_size, self._kept
        deleted, done = dict(self._store.deleted), self._done_queues()

        def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            parts = (
                QueuePart(entries.queue_key(topic, queue_id), data)
                for topic, queue_id, data in _rows(batches, kept, "topic", "queue_id", "data")
            )
            made = queue_files.write_queues(parts, building, file_size, deleted)
            yield _made(sum(1 for _ in made))

        frame = self._read(entries.QUEUE)
        if done.num_rows:
            frame = frame.join(broadcast(self._spark.createDataFrame(done)), done.schema.names, "left_anti")
        return done.num_rows + self._write("queues", frame, ["topic", "queue_id"], write)

    def _count_delayed(self) -> int:
        """Return how many messages are in the queues of the schedule's topic."""
        delayed = self._read(entries.QUEUE).filter(col("topic") == lit(entries.topic_bytes(SCHEDULE_TOPIC)))
        return sum(count for _, count in self._counts(delayed))

    def _counts(self, frame: DataFrame) -> list[tuple[int, int]]:
        """Return begin and count of the stretches that are in the log."""
        counts = [(row["begin"], row["count"]) for row in frame.select("begin", "count").collect()]
        held = self._kept.holds(np.array([begin for begin, _ in counts], np.int64))
        return list(compress(counts, held.tolist()))

    def _done_queues(self) -> pa.Table:
        layer, topics = self._layer, layout.consume_queues_dir(self._building)
        done = [
            {"topic": entries.topic_bytes(topic), "queue_id": layout.parse_queue_id(name)}
            for topic in topics_in(layer, topics)
            for name in queues_in(layer, topics / topic)
        ]
        columns: dict[str, pa.DataType] = {"topic": pa.binary(), "queue_id": pa.int32()}
        return pa.Table.from_pylist(done, pa.schema(columns))

    def _write_index(self) -> int:
        """Write the missing index files, and name them; return the number of all."""
        layer, building, settings = self._layer, self._building, self._store.settings
        slot_count, entry_count, kept = settings.max_hash_slot_num, settings.max_index_num, self._kept
        keys = self._read(entries.KEYS)
        stretches = ranked(self._counts(keys))
        done = set(layer.names(building / index_files.BLOCKS))
        places = [
            {"begin": stretch.begin, "block": block, "rank": stretch.rank}
            for stretch in stretches
            for block in blocks_of(stretch, index_files.room_of(entry_count))
            if str(block) not in done
        ]

        def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            parts = (Keys(*row) for row in _rows(batches, kept, "block", "rank", "data"))
            made = index_files.write_blocks(parts, building, slot_count, entry_count)
            yield _made(sum(1 for _ in made))

        if places:
            table = pa.Table.from_pylist(places, pa.schema([(name, pa.int64()) for name in places[0]]))
            frame = keys.join(broadcast(self._spark.createDataFrame(table)), "begin")
            self._write("index", frame, ["block"], write)
        return index_files.name_blocks(layer, building)

    def _write(
        self,
        step: str,
        frame: DataFrame,
        owner: list[str],
        write: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    ) -> int:
        """Write the files of each ``owner`` in one task, from its rows in the order of the log."""
        ordered = frame.repartition(self._tasks, *owner).sortWithinPartitions(*owner, "begin")
        with watched(self._spark, step, self._progress):
            results = ordered.mapInArrow(write, MADE).collect()
        self._peaks += [result["peak_bytes"] for result in results]
        return sum(result["made"] for result in results)

    def _vouch(self, end_time: int) -> None:
        """Write a checkpoint, once the log is on the disk, too."""
        for start in self._store.log.chain.starts:
            self._layer.sync(self._store.log.chain.path(start))
        checkpoint = Checkpoint(physic_msg_timestamp=end_time, logics_msg_timestamp=end_time)
        self._layer.save(layout.checkpoint_path(self._store.root), checkpoint.pack_with_copy())


def _rows(batches: Iterable[pa.RecordBatch], kept: Kept, *names: str) -> Iterator[tuple[Any, ...]]:
    """Yield some columns of the rows whose stretches are in the log."""
    for batch in batches:
        held = batch.filter(pa.array(kept.holds(batch.column("begin").to_numpy())))
        yield from zip(*(held.column(name).to_pylist() for name in names), strict=True)


def _made(count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"made": count, "peak_bytes": peak_bytes()}])
