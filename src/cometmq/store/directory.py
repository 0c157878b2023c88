"""A store directory opened read-only: of a dead broker, or of a running one.

Nothing is written, repaired or locked. A running broker keeps the newest entries of ConsumeQueues and Index
in memory: its files look like those after a kill.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from cometmq.errors import FormatError, SettingsError, StoreDamaged
from cometmq.format import layout
from cometmq.format.checkpoint import Checkpoint
from cometmq.format.delay_level import DelayLevels
from cometmq.format.index import file_size
from cometmq.format.java import fastjson
from cometmq.io.files import TEMPORARY_SUFFIX, Disk, FileLayer
from cometmq.io.open_files import OpenFiles
from cometmq.io.regular import NotRegularFile
from cometmq.store import foreign
from cometmq.store.files.file_chain import UNFINISHED, FileChain
from cometmq.store.files.finding import Finding, Severity
from cometmq.store.files.folders import files_in, queues_in, topics_in
from cometmq.store.files.sizes import infer_settings
from cometmq.store.files.spread import spread_of
from cometmq.store.index.index_view import IndexView
from cometmq.store.log.commit_log import CommitLog
from cometmq.store.log.vouched import vouched_time, was_closed
from cometmq.store.queue.consume_queue_ext import ConsumeQueueExt
from cometmq.store.queue.ledger import Ledger
from cometmq.store.queue.queue_files import QueueFiles
from cometmq.store.queue.queues import EXT_SETTING, REMEDY, SETTING
from cometmq.store.settings import StoreSettings
from cometmq.store.whereabouts import check_has_log

REBUILD = "run `cometmq store rebuild`"
TOPICS = "topics"


class StoreDirectory:
    """A store opened read-only; a context manager, which closes it.

    Args:
        settings: of the broker that wrote it; by default the sizes are inferred from the files.

    Attributes:
        log: the CommitLog, as far as its files can be used.
        findings: the files of the CommitLog that cannot be used, and what is not read, as it is foreign.
        was_closed: whether the store was closed; if not, a start recovers it first.
        checkpoint: the checkpoint, None if it is missing or damaged.
    """

    def __init__(
        self, root: Path, settings: StoreSettings | None = None, layer: FileLayer | None = None
    ) -> None:
        """Open the store.

        Raises SettingsError if there is none, its log is elsewhere or its sizes cannot be inferred, OSError.
        """
        self.root = root
        self.layer = layer or Disk()
        check_is_store(self.layer, root)
        check_has_log(self.layer, root, settings or StoreSettings())
        self.settings = settings or infer_settings(self.layer, root)
        self.delay_levels = DelayLevels.parse(self.settings.message_delay_level)
        self._files = OpenFiles(self.layer, writable=False)
        self.log = CommitLog(
            self._files, spread_of(root, self.settings), self.settings.mapped_file_size_commit_log
        )
        self._foreign = list(foreign.contents(self.layer, root))
        self.findings = [*self.log.chain.find_files(), *map(_left_out, self._foreign)]
        self.log.written_offset = self.log.chain.end_offset
        self.log.crc = self.settings.crc
        self._has_exts = self.layer.is_directory(layout.consume_queue_exts_dir(root))
        self.was_closed = was_closed(self.layer, root)
        self.checkpoint = self._load_checkpoint()

    def __enter__(self) -> Self:
        """Return the store."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the files."""
        self.close()

    def close(self) -> None:
        """Close the files."""
        self._files.close()

    def drop_pages(self) -> None:
        """Drop the pages in memory that were read."""
        self._files.drop_pages()

    @cached_property
    def deleted(self) -> Mapping[str, int]:
        """By topic, the CommitLog offset before which its records belong to a deleted topic."""
        ledger = Ledger(self.layer, self.root)
        ledger.load()
        return ledger.deleted

    @property
    def vouched_time(self) -> int:
        """Store time, ms, up to which invalid bytes are damage, not a torn tail: see ``vouched``."""
        return vouched_time(self.layer, self.root, self.checkpoint)

    def data_bytes(self) -> int:
        """Return the size of the CommitLog's files up to the last data, in bytes."""
        chain = self.log.chain
        last = sum(chain.file(start).data_end(0) for start in chain.starts[-1:])
        return max(len(chain.starts) - 1, 0) * chain.file_size + last

    def has_foreign_queues(self, topic: str) -> bool:
        """Check whether a topic's queues are in a form that is not read, so nothing is known of them."""
        return self.are_queues_foreign or topic in self._in_batch_queues

    @cached_property
    def are_queues_foreign(self) -> bool:
        """Whether all queues are in a form that is not read."""
        queues = layout.consume_queues_dir(self.root)
        places = {found.path for found in self._foreign if found.kind in foreign.ROCKSDB_QUEUES}
        return queues in places or (bool(places) and not self.layer.names(queues))

    @cached_property
    def _in_batch_queues(self) -> set[str]:
        places = [found.path for found in self._foreign if found.kind is foreign.BATCH_QUEUES]
        return {topic for path in places for topic in self.layer.names(path)}

    def queues(self, findings: list[Finding]) -> Iterator[QueueFiles]:
        """Iterate over the ConsumeQueues; files that cannot be used are added to ``findings``."""
        topics = layout.consume_queues_dir(self.root)
        if self.are_queues_foreign:
            return
        for topic in topics_in(self.layer, topics):
            if not self.layer.is_directory(topics / topic):
                findings.append(_alien(topics / topic, "no topic's directory"))
                continue
            for name in queues_in(self.layer, topics / topic):
                try:
                    queue_id = layout.parse_queue_id(name)
                except FormatError as error:
                    findings.append(_alien(topics / topic / name, str(error)))
                    continue
                queue = self.queue(topic, queue_id)
                try:
                    findings += queue.chain.find_files()
                except NotADirectoryError:
                    findings.append(_alien(queue.chain.directory, "no queue's directory"))
                    continue
                if queue.ext is not None:
                    findings += queue.ext.chain.find_files()
                yield queue

    def queue(self, topic: str, queue_id: int) -> QueueFiles:
        """Return one queue, without listing its files yet. Raises IllegalName."""
        directory = layout.consume_queue_dir(self.root, topic, queue_id)
        chain = FileChain(self._files, directory, self.settings.queue_file_size, SETTING, REMEDY)
        if not self._has_exts:
            return QueueFiles(topic, queue_id, chain)
        directory = layout.consume_queue_ext_dir(self.root, topic, queue_id)
        size = self.settings.mapped_file_size_consume_queue_ext
        return QueueFiles(
            topic,
            queue_id,
            chain,
            ConsumeQueueExt(FileChain(self._files, directory, size, EXT_SETTING, REMEDY)),
        )

    def index(self, findings: list[Finding]) -> list[IndexView]:
        """Return the index files, oldest first; those that cannot be used are added to ``findings``."""
        slot_count, entry_count = self.settings.max_hash_slot_num, self.settings.max_index_num
        views = [
            IndexView(path, np.frombuffer(self._files.get(path).view(), np.uint8), slot_count, entry_count)
            for path in self.index_paths(findings)
        ]
        # By place in the log: names do not ascend if the clock was set back, as at the end of summer time.
        return sorted(views, key=lambda view: view.header.begin_physical_offset)

    def index_paths(self, findings: list[Finding]) -> list[Path]:
        """Return the paths of index files, by name; those that cannot be used are added to ``findings``."""
        slot_count, entry_count = self.settings.max_hash_slot_num, self.settings.max_index_num
        expected = file_size(slot_count, entry_count)
        paths = []
        directory = layout.index_dir(self.root)
        for name in files_in(self.layer, directory, layout.is_index_name):
            path = directory / name
            if name.endswith(TEMPORARY_SUFFIX):
                findings.append(Finding(Severity.RECOVERY, path, None, None, UNFINISHED))
                continue
            try:
                layout.parse_index_name(name)
                size = self.layer.size(path)
            except FormatError as error:
                findings.append(_alien(path, str(error)))
                continue
            except NotRegularFile as error:
                findings.append(_alien(path, error.strerror))
                continue
            if size != expected:
                what = f"has {size} bytes, expected {expected} ({slot_count} slots, {entry_count} entries)"
                remedy = f"set maxHashSlotNum and maxIndexNum to what it was written with, or {REBUILD}"
                findings.append(Finding(Severity.DAMAGE, path, None, None, what, remedy))
                continue
            paths.append(path)
        return paths

    def topics(self) -> set[str] | None:
        """Return the names of the topics in the broker's table; None if it cannot be read."""
        path = layout.config_path(self.root, TOPICS)
        for place in (path, layout.backup_path(path)):
            table = self._load_table(place)
            if table is not None:
                return set(table)
        return None

    def _load_table(self, path: Path) -> dict[str, Any] | None:
        try:
            value = fastjson.loads(self.layer.load(path))
        except (FormatError, FileNotFoundError, NotRegularFile):
            return None
        table = value.get("topicConfigTable") if isinstance(value, dict) else None
        return table if isinstance(table, dict) else None

    def _load_checkpoint(self) -> Checkpoint | None:
        try:
            return Checkpoint.unpack(self.layer.load(layout.checkpoint_path(self.root)))
        except (FormatError, FileNotFoundError, NotRegularFile):
            return None


def check_undamaged(findings: Iterable[Finding]) -> None:
    """Raise StoreDamaged for the first finding of damage."""
    for finding in findings:
        if finding.severity is Severity.DAMAGE:
            raise StoreDamaged(str(finding))


def check_is_store(layer: FileLayer, root: Path) -> None:
    """Raise SettingsError unless ``root`` is the directory of a store whose log can be read."""
    if not layer.exists(root):
        raise SettingsError(f"{root}: there is no such directory: give the path of a store")
    if not layer.is_directory(root):
        raise SettingsError(f"{root}: is a file: give the directory of a store, which holds commitlog/")
    foreign.check_readable(layer, root)
    signs = (layout.commitlog_dir(root), layout.checkpoint_path(root), layout.lock_path(root))
    if not any(map(layer.exists, signs)):
        raise SettingsError(f"{root}: is no store, it holds no commitlog/: give the path of a store")


def _left_out(found: foreign.Foreign) -> Finding:
    return Finding(
        Severity.NOTE, found.path, None, None, f"holds {found.kind.what}, which CometMQ does not read"
    )


def _alien(path: Path, what: str) -> Finding:
    return Finding(Severity.DAMAGE, path, None, None, what, "move it out of the store")
