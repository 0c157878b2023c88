"""The ledger: what recovery must know of queues and cannot read from their own files.

* The end of each queue. A queue whose files are lost would begin again at 0, and offsets that consumers have
  committed would mean other messages: so its records are dispatched again from the log, and if they have all
  expired, the queue continues at the queue offset recorded here.
* The first record of each index file. The keys of a lost file are indexed again from the log.
* The offset in the log at which a topic was deleted. Its records stay in the log until they expire, and must
  not be dispatched again.

The ends and the index files are saved when the store is opened and closed. A deletion is saved at once, in a
small file of its own (``deletion_notes.py``), until the large one is saved again; ends of queues deleted in
between do not count. Both files are CometMQ's own: a Java broker ignores them, and without them, or with old
ones, the store is only less well protected.
"""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import msgspec

from cometmq.format import layout
from cometmq.io.files import FileLayer
from cometmq.logs import get_logger
from cometmq.store.queue.consume_queue import ConsumeQueue
from cometmq.store.queue.deletion_notes import DeletionNotes
from cometmq.store.queue.queues import QueueKey
from cometmq.store.reading import Reading, ThreadStep
from cometmq.store.tables import JsonTable

log = get_logger(__name__)

NAME = "queues"


class _Content(msgspec.Struct, rename="camel"):
    """The file's content: ends of queues by topic and id, begins of index files by name, deletions by topic.

    All are CommitLog offsets, except ``queue_offsets``: the ends of the same queues as queue offsets.
    """

    queue_ends: dict[str, dict[int, int]] = {}
    queue_offsets: dict[str, dict[int, int]] = {}
    index_files: dict[str, int] = {}
    deleted_topics: dict[str, int] = {}


class Ledger:
    """The files ``config/queues.json`` and ``config/deletions.json``.

    Attributes:
        ends: CommitLog offset behind the last record of each queue when the file was saved, without queues
            that were deleted before it was loaded.
        offsets: queue offset behind the last record of each queue, likewise.
        index_files: CommitLog offset of the first record in each index file, by the file's name.
        deleted: by topic, the CommitLog offset before which its records are those of a deleted topic.
    """

    def __init__(self, layer: FileLayer, root: Path) -> None:
        self.ends: dict[QueueKey, int] = {}
        self.offsets: dict[QueueKey, int] = {}
        self.index_files: dict[str, int] = {}
        self.deleted: dict[str, int] = {}
        self._table = JsonTable(layer, layout.config_path(root, NAME))
        self._notes = DeletionNotes(layer, root)
        self._saved_topics: frozenset[str] = frozenset()  # topics with ends in the file

    def load(self) -> None:
        """Load the files that exist; unreadable content counts as none."""
        content = _Content()
        try:
            content = msgspec.convert(self._table.load() or {}, _Content, strict=False)
        except msgspec.ValidationError as error:
            log.warning("%s: %s; going on without it", self._table.path, error)
        self._notes.load()
        self._saved_topics = frozenset(content.queue_ends)
        self.deleted = content.deleted_topics
        for topic, offset in self._notes.topics.items():
            self.deleted[topic] = max(offset, self.deleted.get(topic, 0))
        self.index_files = content.index_files
        self.offsets = _by_queue(content.queue_offsets)
        self.ends = {key: end for key, end in _by_queue(content.queue_ends).items() if self._counts(key, end)}

    def record_deleted_topics(
        self, topics: Iterable[str], written_offset: int, min_offset: int
    ) -> Reading[None]:
        """Record, durably, that all records of topics before ``written_offset`` are deleted.

        It is effective at once. Raises OSError; then nothing has changed.
        """
        new = dict.fromkeys(topics, written_offset)
        before = {topic: self.deleted.get(topic, 0) for topic in new}
        self.deleted |= new
        saved = self._saved_topics

        def is_needed(topic: str, offset: int) -> bool:
            return offset > min_offset or topic in saved

        error = yield ThreadStep(partial(_write_error, partial(self._notes.add, new, {}, is_needed)))
        if error is not None:
            self.deleted = {topic: offset for topic, offset in (self.deleted | before).items() if offset}
            raise error

    def record_deleted_queues(self, keys: Iterable[QueueKey], written_offset: int) -> Reading[None]:
        """Record, durably, the deletion of queues whose messages have all expired. Raises OSError."""
        known: dict[str, dict[int, int]] = {}
        for topic, queue_id in keys:
            if (topic, queue_id) in self.ends:
                known.setdefault(topic, {})[queue_id] = written_offset
        if not known:
            return
        error = yield ThreadStep(partial(_write_error, partial(self._notes.add, {}, known, lambda *_: True)))
        if error is not None:
            raise error
        for topic, ids in known.items():
            for queue_id in ids:
                self.ends.pop((topic, queue_id), None)

    def cut(self, end_offset: int) -> None:
        """Limit deletions, durably, to the log's end: records appended behind it are new. Raises OSError."""
        deleted = {topic: min(offset, end_offset) for topic, offset in self.deleted.items()}
        if deleted != self.deleted:
            self.deleted = deleted
            self._save()

    def forget_behind(self, offset: int) -> None:
        """Forget, durably, the ends of queues that lie behind an offset at which the log is truncated.

        Raises OSError.
        """
        kept = {key: end for key, end in self.ends.items() if end <= offset}
        if kept != self.ends:
            self.ends, self.offsets = kept, {key: self.offsets.get(key, 0) for key in kept}
            self._save()

    def record_files(
        self, queues: Iterable[ConsumeQueue], index_files: dict[str, int], min_offset: int
    ) -> None:
        """Record, durably, the ends of queues and the index files; drop expired deletions. Raises OSError.

        A queue with entries in memory only keeps its recorded end: a killed process loses these entries, and
        the queue's files would seem to be lost.
        """
        ends, offsets = {}, {}
        for queue in queues:
            key = queue.topic, queue.queue_id
            if queue.pending_bytes and self._counts(key, self.ends.get(key, 0)):
                ends[key], offsets[key] = self.ends[key], self.offsets.get(key, 0)
            elif queue.physical_end and not queue.pending_bytes:
                ends[key], offsets[key] = queue.physical_end, queue.max_offset
        deleted = {topic: offset for topic, offset in self.deleted.items() if offset > min_offset}
        is_saved = (ends, index_files, deleted) == (self.ends, self.index_files, self.deleted)
        if self._notes or not is_saved:
            self.ends, self.index_files, self.deleted = ends, index_files, deleted
            self.offsets = offsets
            self._save()

    def _counts(self, key: QueueKey, end: int) -> bool:
        """Return whether a queue that ended at ``end`` was not deleted after that."""
        topic, queue_id = key
        removed = self._notes.queues.get(topic, {}).get(queue_id, 0)
        return end > max(removed, self.deleted.get(topic, 0))

    def _save(self) -> None:
        content = _Content(index_files=self.index_files, deleted_topics=dict(sorted(self.deleted.items())))
        for (topic, queue_id), end in sorted(self.ends.items()):
            if topic.isascii():  # any other name comes from a damaged record
                content.queue_ends.setdefault(topic, {})[queue_id] = end
                content.queue_offsets.setdefault(topic, {})[queue_id] = self.offsets.get((topic, queue_id), 0)
        # Keys in quotes, unlike in RocketMQ's own tables, are parsed ten times as fast.
        self._table.save(msgspec.to_builtins(content, str_keys=True))
        self._saved_topics = frozenset(content.queue_ends)
        self._notes.clear()


def _by_queue(by_topic: dict[str, dict[int, int]]) -> dict[QueueKey, int]:
    return {(topic, queue_id): end for topic, ends in by_topic.items() for queue_id, end in ends.items()}


def _write_error(write: Callable[[], None]) -> OSError | None:
    """Call ``write`` in any thread; return its OSError, if any."""
    try:
        write()
    except OSError as error:
        return error
    return None
