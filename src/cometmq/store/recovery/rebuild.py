"""Rebuild ConsumeQueues and Index from the CommitLog alone.

The new files are built in ``rebuild/`` inside the store, synced, and swapped in by renaming: the old
directory moves to ``rebuild/<name>.old`` and the new one takes its place, first ``consumequeue/``, then
``index/``; then ``rebuild/`` is removed. A crash leaves

* while building: the old files, untouched;
* between two renames: of each directory the old or the new one, complete, or none. The next start detects a
  missing one and dispatches the CommitLog from its beginning.

The next rebuild removes what a crash leaves in ``rebuild/``. CommitLog, checkpoint, ``abort`` and tables are
not changed: the next start recovers a killed store as it would have done before.

The time when a delayed message is due is only in its queue entry: it is computed again, by the settings'
``messageDelayLevel``, which the result names.

Queue entries have no extensions: the log does not record which filters existed when a message was stored. So
``consumequeue_ext/`` is removed; consumers get the same messages, only each is filtered by its record.

The result equals what a broker wrote, byte for byte, with these exceptions: an index file is named by the
store time of its first record (a broker names it by the time of its creation, some ms later); records that a
broker indexed twice around a restart are indexed once; and queues of topics that a Java broker deleted
reappear, with the messages that are still in the log.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from cometmq import kernels
from cometmq.errors import StoreLocked
from cometmq.format import layout
from cometmq.format.delay_level import SCHEDULE_TOPIC
from cometmq.format.queue_entry import SIZE as QUEUE_ENTRY_SIZE
from cometmq.io.clock import Clock, SystemClock
from cometmq.io.files import Disk, FileLayer
from cometmq.io.open_files import OpenFiles
from cometmq.store.directory import StoreDirectory, check_is_store, check_undamaged
from cometmq.store.files.sync_order import files_then_directories
from cometmq.store.index.index import Index
from cometmq.store.log.log_scan import LogDamage, LogScan
from cometmq.store.progress import Progress
from cometmq.store.queue.queues import Queues
from cometmq.store.recovery.replay import Gap, Replay
from cometmq.store.settings import StoreSettings
from cometmq.store.whereabouts import check_can_open

BUILD_DIRECTORY = "rebuild"
OLD_SUFFIX = ".old"
PENDING_MAX = 16 * 1024 * 1024
"""Bytes of queue entries that are buffered before they are written."""


class Rebuilt(NamedTuple):
    """The result of a rebuild.

    Attributes:
        messages: records dispatched.
        queues: queues created.
        index_files: index files created.
        bytes: length of the log that was read.
        damages: stretches of the log that hold no records.
        gaps: stretches of queues whose messages are lost.
        delayed: number of messages in the queues of the schedule's topic.
        delay_levels: the ``messageDelayLevel`` by which their due times were computed.
        peak_bytes: the most memory that a worker took, of a rebuild by Spark.
    """

    messages: int
    queues: int
    index_files: int
    bytes: int
    duration_ms: int
    damages: list[LogDamage]
    gaps: list[Gap]
    delayed: int
    delay_levels: str
    peak_bytes: int = 0


def rebuild(
    directory: Path | str,
    settings: StoreSettings | None = None,
    *,
    layer: FileLayer | None = None,
    clock: Clock | None = None,
    progress: Progress | None = None,
) -> Rebuilt:
    """Rebuild ``consumequeue/`` and ``index/`` of a closed store from its CommitLog.

    Args:
        settings: of the broker; by default the sizes are inferred from the files, and the delay levels are
            RocketMQ's.
        progress: called with the bytes of the log that are done, and the total.

    Raises:
        StoreLocked: a process has the store open.
        StoreDamaged: a file of the CommitLog is missing or of the wrong length.
        SettingsError: there is no store, or its sizes cannot be inferred.
        OSError: a disk error; the old files are still there.
    """
    root, layer, clock = Path(directory), layer or Disk(), clock or SystemClock()
    begin_ms = clock.monotonic_ms()
    with open_locked(root, settings, layer) as store:
        rebuilt = _build_and_swap(store, layer, progress)
    return rebuilt._replace(duration_ms=clock.monotonic_ms() - begin_ms)


@contextmanager
def open_locked(root: Path, settings: StoreSettings | None, layer: FileLayer) -> Iterator[StoreDirectory]:
    """Open an undamaged store and lock it, so that no broker opens it meanwhile.

    Raises:
        StoreLocked: a process has the store open.
        StoreDamaged: a file of the CommitLog is missing or of the wrong length.
        SettingsError: there is no store, or its sizes cannot be inferred.
    """
    check_is_store(layer, root)
    check_can_open(layer, root, settings or StoreSettings())
    token = layer.lock(layout.lock_path(root))
    if token is None:
        raise StoreLocked(f"{root} is open in another process: stop it first")
    try:
        with StoreDirectory(root, settings, layer) as store:
            check_undamaged(store.findings)
            yield store
    finally:
        layer.unlock(token)


def _build_and_swap(store: StoreDirectory, layer: FileLayer, progress: Progress | None) -> Rebuilt:
    building = store.root / BUILD_DIRECTORY
    remove_tree(layer, building)
    try:
        rebuilt = _build(store, layer, building, progress)
        swap_in(store, layer, building)
    finally:
        remove_tree(layer, building)
    return rebuilt


def _build(store: StoreDirectory, layer: FileLayer, building: Path, progress: Progress | None) -> Rebuilt:
    """Build the new files under ``building``, and sync them."""
    settings = store.settings
    files = OpenFiles(layer, writable=True)
    try:
        queues = Queues(files, building, settings.queue_file_size)
        layer.make_directory(layout.consume_queues_dir(building))
        index = None
        if settings.message_index_enable:
            index = Index(files, building, settings.max_hash_slot_num, settings.max_index_num)
        begin, total = store.log.min_offset, store.data_bytes()
        kernels.load_for(total)
        replay = Replay(queues, index, store.delay_levels, deleted=store.deleted)
        scan = LogScan(store.log, begin, vouched_time=store.vouched_time)
        pending = 0
        for chunk in replay.walk(iter(scan)):
            store.drop_pages()
            pending += chunk.scan.count * QUEUE_ENTRY_SIZE
            if pending > PENDING_MAX:
                queues.write_back()
                pending = 0
            if progress is not None:
                progress(chunk.end_offset - begin, total)
        queues.write_back()
        index_paths = _finish_index(index)
        queue_paths = [queue.chain.path(start) for queue in queues for start in queue.chain.starts]
        layer.sync_all(files_then_directories(queue_paths + index_paths, building))
    finally:
        files.close()
    made = list(queues)
    return Rebuilt(
        messages=replay.messages,
        queues=len(made),
        index_files=len(index_paths),
        bytes=scan.end_offset - begin,
        duration_ms=0,
        damages=scan.damages,
        gaps=replay.gaps,
        delayed=sum(queue.max_offset for queue in made if queue.topic == SCHEDULE_TOPIC),
        delay_levels=settings.message_delay_level,
    )


def _finish_index(index: Index | None) -> list[Path]:
    if index is None:
        return []
    index.write_back()
    return index.paths()


def swap_in(store: StoreDirectory, layer: FileLayer, building: Path) -> None:
    """Move what was built to the places of what the store had; extensions of queues are not built again."""
    swap(layer, layout.consume_queues_dir(building), layout.consume_queues_dir(store.root))
    remove_tree(layer, layout.consume_queue_exts_dir(store.root))
    if store.settings.message_index_enable:
        swap(layer, layout.index_dir(building), layout.index_dir(store.root))


def swap(layer: FileLayer, built: Path, place: Path) -> None:
    """Move directory ``built`` to ``place``; the one there moves to beside ``built``, marked as old."""
    old = built.with_name(built.name + OLD_SUFFIX)
    existed = layer.exists(place)
    if existed:
        layer.rename(place, old)
    try:
        layer.rename(built, place)
    except OSError:
        if existed:
            layer.rename(old, place)
        raise


def remove_tree(layer: FileLayer, path: Path) -> None:
    """Remove a file, or a directory with its content; no error if there is none."""
    if not layer.is_directory(path):
        layer.remove(path, durable=False)
        return
    for name in layer.names(path):
        remove_tree(layer, path / name)
    layer.remove_directory(path, durable=False)
