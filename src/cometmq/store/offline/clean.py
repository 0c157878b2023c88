"""Removing what has expired from a store that is closed.

As in an open one (see ``retention``), CommitLog files go from the front, each durably before the next, then
the files of queues and index that point into them; a crash between any two leaves a store that opens.

A store that was killed is opened and closed first: what its next start would find out about queues may
stand in the very files that are to go.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from cometmq.errors import StoreDamaged, StoreLocked
from cometmq.format import layout
from cometmq.format.queue_entry import FILLER
from cometmq.io.clock import Clock, SystemClock
from cometmq.io.files import Disk, FileLayer
from cometmq.store.finding import Finding, Severity
from cometmq.store.offline.directory import StoreDirectory, check_is_store
from cometmq.store.offline.sizes import tell_settings
from cometmq.store.progress import Progress
from cometmq.store.queue.queue_files import QueueFiles
from cometmq.store.settings import StoreSettings
from cometmq.store.store import MessageStore
from cometmq.store.upkeep.retention import HOUR_MS


class Expired(NamedTuple):
    """A file that has expired."""

    path: Path
    size: int


class Cleaned(NamedTuple):
    """What was removed, or would be.

    Attributes:
        commit_log: files of the CommitLog, oldest first.
        queue_files: files of ConsumeQueues.
        index_files: files of the index.
        min_offset: CommitLog offset at which the log begins then.
    """

    commit_log: list[Expired]
    queue_files: list[Expired]
    index_files: list[Expired]
    min_offset: int

    @property
    def files(self) -> list[Expired]:
        """All of them, in the order in which they go."""
        return self.commit_log + self.queue_files + self.index_files

    @property
    def bytes(self) -> int:
        """Their length."""
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
    """Remove CommitLog files that were last written to so long ago, and what is derived from them.

    Args:
        settings: of the broker; by default the sizes are told from the files there are.
        older_than_ms: by default the settings' fileReservedTime.
        dry_run: change nothing, only say what would go.
        progress: told how far the recovery of a killed store is.
        on_removed: told each file once it is gone.

    Raises:
        StoreLocked: a process has it open.
        StoreDamaged: a file is missing or of the wrong length; nothing is removed then.
        SettingsError: there is no store, or its sizes cannot be told.
        StoreNotWritable: the store was killed, and the disk is too full to recover it.
        OSError: the disk refuses.
    """
    root, layer, clock = Path(directory), layer or Disk(), clock or SystemClock()
    check_is_store(layer, root)
    if layer.lock_holder(layout.lock_path(root)) is not None:
        raise _locked(root)
    if dry_run:
        with StoreDirectory(root, settings, layer) as store:
            return _plan(store, _oldest(store, older_than_ms, clock))
    if layer.exists(layout.abort_path(root)):
        known = settings or tell_settings(layer, root)
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
    """Give the time, ms, of the oldest write that keeps a file."""
    if older_than_ms is None:
        older_than_ms = store.settings.file_reserved_time * HOUR_MS
    return clock.now_ms() - older_than_ms


def _plan(store: StoreDirectory, oldest_ms: int) -> Cleaned:
    """Find what goes. Raises StoreDamaged before anything has."""
    findings = list(store.findings)
    _check(findings)
    chain, layer = store.log.chain, store.layer
    used = [start for start in chain.starts if chain.file(start).data_end(0)]  # one may be made ahead
    expired = list(takewhile(lambda start: layer.modified_ms(chain.path(start)) <= oldest_ms, used[:-1]))
    min_offset = expired[-1] + chain.file_size if expired else chain.first_offset
    queues: list[Path] = []
    for queue in store.queues(findings):
        _check(findings)
        queues += _expired_files(queue, min_offset)
    index = takewhile(lambda view: view.header.end_physical_offset < min_offset, store.index(findings)[:-1])
    _check(findings)
    return Cleaned(
        list(_sized(layer, map(chain.path, expired))),
        list(_sized(layer, queues)),
        list(_sized(layer, [view.path for view in index])),
        min_offset,
    )


def _expired_files(queue: QueueFiles, min_offset: int) -> Iterator[Path]:
    """Give the files from the front whose messages are all gone, but never the last one."""
    for start in queue.chain.starts[:-1]:
        entries = queue.entries(start)
        alive = (entries["size"] != FILLER.size) & (entries["physical_offset"] >= min_offset)
        if alive.any():
            return
        yield queue.chain.path(start)


def _sized(layer: FileLayer, paths: Iterable[Path]) -> Iterator[Expired]:
    return (Expired(path, layer.size(path)) for path in paths)


def _check(findings: list[Finding]) -> None:
    for finding in findings:
        if finding.severity is Severity.DAMAGE:
            raise StoreDamaged(str(finding))


def _locked(root: Path) -> StoreLocked:
    return StoreLocked(
        f"{root} is open in another process: stop it first; a broker that runs cleans its store by itself"
    )
