"""Remove expired files from a closed store.

As in an open one (see ``retention``), CommitLog files are removed from the front, each durably before the
next, then the files of queues and index that point into them; a crash between any two leaves a store that
opens.

A killed store is opened and closed first, since recovery may need the files that are to be removed.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from cometmq.errors import StoreLocked
from cometmq.format import layout
from cometmq.format.queue_entry import FILLER
from cometmq.io.clock import Clock, SystemClock
from cometmq.io.files import Disk, FileLayer
from cometmq.store.directory import StoreDirectory, check_is_store, check_undamaged
from cometmq.store.files.sizes import infer_settings
from cometmq.store.progress import Progress
from cometmq.store.queue.queue_files import QueueFiles
from cometmq.store.settings import StoreSettings
from cometmq.store.store import MessageStore
from cometmq.store.upkeep.retention import HOUR_MS
from cometmq.store.whereabouts import check_can_open


class Expired(NamedTuple):
    """A file that has expired."""

    path: Path
    size: int


class Cleaned(NamedTuple):
    """The files that were removed, or would be.

    Attributes:
        commit_log: files of the CommitLog, oldest first.
        queue_files: files of ConsumeQueues.
        index_files: files of the index.
        min_offset: CommitLog offset at which the log begins afterwards.
    """

    commit_log: list[Expired]
    queue_files: list[Expired]
    index_files: list[Expired]
    min_offset: int

    @property
    def files(self) -> list[Expired]:
        """All files, in the order of their removal."""
        return self.commit_log + self.queue_files + self.index_files

    @property
    def bytes(self) -> int:
        """The total size of the files."""
        return sum(file.size for file in self.files)


def clean(
    directory: Path | str,
    settings: StoreSettings | None = None,
    *,
    older_than_ms: int | None = None,
    dry_run: bool = False,
    layer: FileLayer | None = None,
    clock: Clock | None = None,
    progress: Progress | None = None,
    on_removed: Callable[[Expired], None] = lambda _: None,
) -> Cleaned:
    """Remove expired CommitLog files, and the derived files that point only into them.

    Args:
        settings: of the broker; by default the sizes are inferred from the files.
        older_than_ms: age of a file's last write from which it is removed; by default fileReservedTime.
        dry_run: change nothing, only return the files that would be removed.
        progress: called with the progress of the recovery of a killed store.
        on_removed: called with each file once it is removed.

    Raises:
        StoreLocked: a process has the store open.
        StoreDamaged: a file is missing or of the wrong length; nothing is removed then.
        SettingsError: there is no store, or its sizes cannot be inferred.
        StoreNotWritable: the store was killed, and the disk is too full to recover it.
        OSError: a disk error.
    """
    root, layer, clock = Path(directory), layer or Disk(), clock or SystemClock()
    check_is_store(layer, root)
    check_can_open(layer, root, settings or StoreSettings())
    if layer.lock_holder(layout.lock_path(root)) is not None:
        raise _locked(root)
    if dry_run:
        with StoreDirectory(root, settings, layer) as store:
            return _plan(store, _oldest(store, older_than_ms, clock))
    if layer.exists(layout.abort_path(root)):
        known = settings or infer_settings(layer, root)
        MessageStore.open(root, known, files=layer, clock=clock, progress=progress).close()
    token = layer.lock(layout.lock_path(root))
    if token is None:
        raise _locked(root)
    try:
        with StoreDirectory(root, settings, layer) as store:
            cleaned = _plan(store, _oldest(store, older_than_ms, clock))
        for file in cleaned.files:
            layer.remove(file.path)
            on_removed(file)
    finally:
        layer.unlock(token)
    return cleaned


def _oldest(store: StoreDirectory, older_than_ms: int | None, clock: Clock) -> int:
    """Return the expiry limit, ms: files last written to at that time or before are expired."""
    if older_than_ms is None:
        older_than_ms = store.settings.file_reserved_time * HOUR_MS
    return clock.now_ms() - older_than_ms


def _plan(store: StoreDirectory, oldest_ms: int) -> Cleaned:
    """Find the files to remove. Raises StoreDamaged."""
    findings = list(store.findings)
    check_undamaged(findings)
    chain, layer = store.log.chain, store.layer
    used = [start for start in chain.starts if chain.file(start).data_end(0)]  # one may be preallocated
    expired = list(takewhile(lambda start: layer.modified_ms(chain.path(start)) <= oldest_ms, used[:-1]))
    min_offset = expired[-1] + chain.file_size if expired else chain.first_offset
    queues: list[Path] = []
    for queue in store.queues(findings):
        check_undamaged(findings)
        queues += _expired_files(queue, min_offset)
    index = takewhile(lambda view: view.header.end_physical_offset < min_offset, store.index(findings)[:-1])
    check_undamaged(findings)
    return Cleaned(
        list(_sized(layer, map(chain.path, expired))),
        list(_sized(layer, queues)),
        list(_sized(layer, [view.path for view in index])),
        min_offset,
    )


def _expired_files(queue: QueueFiles, min_offset: int) -> Iterator[Path]:
    """Yield the files from the front whose messages are all gone, but never the last one."""
    for start in queue.chain.starts[:-1]:
        entries = queue.entries(start)
        alive = (entries["size"] != FILLER.size) & (entries["physical_offset"] >= min_offset)
        if alive.any():
            return
        yield queue.chain.path(start)


def _sized(layer: FileLayer, paths: Iterable[Path]) -> Iterator[Expired]:
    return (Expired(path, layer.size(path)) for path in paths)


def _locked(root: Path) -> StoreLocked:
    return StoreLocked(
        f"{root} is open in another process: stop it first; a broker that runs cleans its store by itself"
    )
