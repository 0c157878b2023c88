"""What the store must know of its queues that their own files cannot say.

* How far each queue had come. If a queue's files are gone at a start, it would begin anew, and offsets that
  consumers have committed would stand for other messages: so its records are looked for in the log. If they
  have all expired, it goes on from the queue offset that is noted here.
* Where each index file begins. The keys of one that is gone are looked for in the log, too.
* Where in the log a topic was deleted. Its records stay in the log until they expire, and must not come
  back when the log is dispatched again.

What files there are is written when the store is opened and closed, a deletion at once. The file is
CometMQ's own: a Java broker leaves it as it is, and where it is missing or old the store is only less well
guarded.
"""

import logging
from collections.abc import Iterable
from pathlib import Path

import msgspec

from cometmq.format import layout
from cometmq.io.files import FileLayer
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.queues import QueueKey
from cometmq.store.tables import JsonTable

log = logging.getLogger(__name__)

NAME = "queues"


class _Content(msgspec.Struct, rename="camel"):
    """The file: ends of queues by topic and id, begins of index files by name, deletions by topic.

    All are CommitLog offsets, but ``queue_offsets``: the ends of the same queues as queue offsets.
    """

    queue_ends: dict[str, dict[int, int]] = {}
    queue_offsets: dict[str, dict[int, int]] = {}
    index_files: dict[str, int] = {}
    deleted_topics: dict[str, int] = {}


class Ledger:
    """The file ``config/queues.json``.

    Attributes:
        ends: CommitLog offset behind the last record of each queue, when the file was written.
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

    def load(self) -> None:
        """Read the file if it is there; one that holds something else counts as none."""
        content = _Content()
        try:
            content = msgspec.convert(self._table.load() or {}, _Content, strict=False)
        except msgspec.ValidationError as error:
            log.warning("%s: %s; going on without it", self._table.path, error)
        self.deleted = content.deleted_topics
        self.index_files = content.index_files
        self.ends = _by_queue(content.queue_ends)
        self.offsets = _by_queue(content.queue_offsets)

    def note_deleted(self, topic: str, written_offset: int) -> None:
        """Note, durably, that all records of ``topic`` before an offset are deleted. Raises OSError."""
        self._forget([key for key in self.ends if key[0] == topic], self.deleted | {topic: written_offset})

    def note_removed(self, keys: Iterable[QueueKey]) -> None:
        """Note, durably, that queues whose messages are all gone begin anew. Raises OSError."""
        if known := self.ends.keys() & set(keys):
            self._forget(known, self.deleted)

    def _forget(self, keys: Iterable[QueueKey], deleted: dict[str, int]) -> None:
        before, gone = (self.deleted, self.ends), set(keys)
        self.deleted = deleted
        self.ends = {key: end for key, end in self.ends.items() if key not in gone}
        try:
            self._save()
        except OSError:
            self.deleted, self.ends = before
            raise

    def cut(self, end_offset: int) -> None:
        """Note, durably, that the log ends earlier than a topic was deleted: what comes there is new.

        Raises OSError.
        """
        deleted = {topic: min(offset, end_offset) for topic, offset in self.deleted.items()}
        if deleted != self.deleted:
            self.deleted = deleted
            self._save()

    def note_files(
        self, queues: Iterable[ConsumeQueue], index_files: dict[str, int], min_offset: int
    ) -> None:
        """Note, durably, what files there are; deletions that have expired are forgotten. Raises OSError.

        Of a queue with entries that are in no file yet stays what was noted: a process that is killed loses
        them, and its files would seem to be gone.
        """
        ends, offsets = {}, {}
        for queue in queues:
            key = queue.topic, queue.queue_id
            if queue.pending_bytes and key in self.ends:
                ends[key], offsets[key] = self.ends[key], self.offsets.get(key, 0)
            elif queue.physical_end and not queue.pending_bytes:
                ends[key], offsets[key] = queue.physical_end, queue.max_offset
        deleted = {topic: offset for topic, offset in self.deleted.items() if offset > min_offset}
        if (ends, index_files, deleted) != (self.ends, self.index_files, self.deleted):
            self.ends, self.index_files, self.deleted = ends, index_files, deleted
            self.offsets = offsets
            self._save()

    def _save(self) -> None:
        content = _Content(index_files=self.index_files, deleted_topics=dict(sorted(self.deleted.items())))
        for (topic, queue_id), end in sorted(self.ends.items()):
            if topic.isascii():  # any other name comes from a damaged record
                content.queue_ends.setdefault(topic, {})[queue_id] = end
                content.queue_offsets.setdefault(topic, {})[queue_id] = self.offsets.get((topic, queue_id), 0)
        # Keys in quotes, which RocketMQ's own tables do without, are read ten times as fast.
        self._table.save(msgspec.to_builtins(content, str_keys=True))


def _by_queue(by_topic: dict[str, dict[int, int]]) -> dict[QueueKey, int]:
    return {(topic, queue_id): end for topic, ends in by_topic.items() for queue_id, end in ends.items()}
