"""All ConsumeQueues of a store, by topic and queue id; created with their first message.

Staged entries are appended to a queue when the queue is looked up: see ``staged``.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from cometmq.errors import FormatError, StoreDamaged, StoreNotWritable
from cometmq.format import layout
from cometmq.io.open_files import OpenFiles
from cometmq.logs import get_logger
from cometmq.store.files.file_chain import FileChain
from cometmq.store.files.folders import queues_in, topics_in
from cometmq.store.files.set_aside import move_aside
from cometmq.store.queue.consume_queue import ConsumeQueue
from cometmq.store.queue.consume_queue_ext import ConsumeQueueExt
from cometmq.store.queue.discarded import Discarded
from cometmq.store.queue.entries_ahead import EntriesAhead
from cometmq.store.queue.next_offsets import GONE, NextOffsets
from cometmq.store.queue.staged import Staged

log = get_logger(__name__)

SETTING = "mappedFileSizeConsumeQueue"
EXT_SETTING = "mappedFileSizeConsumeQueueExt"
REMEDY = "run `cometmq store rebuild`"

DENSE_IDS = 1024
"""Bound of the queue ids with a faster lookup: ids of a topic count from 0 on."""

_NO_NUMBER = -1
_NO_NUMBERS = array("q")
_NO_QUEUES: dict[int, ConsumeQueue] = {}

QueueKey = tuple[str, int]


class Queues:
    """The ConsumeQueues under one store directory.

    Args:
        files: the store's open files.
        root: the store directory.
        file_size: length of a ConsumeQueue file.
        ext_size: length of a ConsumeQueueExt file; 0 if queues have none.

    Attributes:
        next_offsets: the next queue offset of each queue, by the queue's number.
        ahead: the cache of entries read ahead, by the queue's number.
        by_number: the queues by their numbers.
        staged: entries that are not yet in their queues; looking a queue up appends them.
        discarded: the directories of deleted queues, until they are removed.
        trusted: whether the store was closed before: then a file of another length means a wrong setting,
            else it may be what a crash left of a deleted queue.
    """

    def __init__(self, files: OpenFiles, root: Path, file_size: int, ext_size: int = 0) -> None:
        self._files = files
        self._ext_size = ext_size
        self._root = root
        self._file_size = file_size
        self._topics: dict[str, dict[int, ConsumeQueue]] = {}
        self._numbers: dict[str, array[int]] = {}  # by topic and id; small enough for the processor's cache
        self._unmovable: dict[Path, OSError] = {}  # directories of deleted queues that could not be moved
        self._tails: dict[ConsumeQueue, bytearray] = {}  # oldest first
        self.ahead = EntriesAhead()
        self.next_offsets = NextOffsets()
        self.by_number: dict[int, ConsumeQueue] = {}
        self.staged = Staged(self.by_number)
        self.discarded = Discarded(files.layer, root)
        self.trusted = False

    @property
    def drop_unsynced(self) -> Callable[[Path], object] | None:
        """Return what takes unfinished files away; None after a clean stop, when there are none."""
        return None if self.trusted else self._set_aside

    def __iter__(self) -> Iterator[ConsumeQueue]:
        """Iterate over the queues."""
        self.staged.put()
        return self._all()

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """Return a queue, or None if it never had a message."""
        queue = self._topics.get(topic, _NO_QUEUES).get(queue_id)
        if queue is not None and queue.max_offset < self.next_offsets.values[queue.number]:
            self.staged.put_queue(queue.number)  # readable entries may be staged
        return queue

    def max_offsets(self, topic: str, queue_ids: Iterable[int]) -> list[int]:
        """Return ``max_offset`` of each of some queues of a topic; 0 for one that never had a message."""
        queues = [self.find(topic, queue_id) for queue_id in queue_ids]
        return [0 if queue is None else queue.max_offset for queue in queues]

    def find_or_create(self, topic: str, queue_id: int) -> ConsumeQueue:
        """Return a queue, created if it does not exist.

        Raises IllegalName for an illegal topic, StoreNotWritable if files of a deleted queue are in the way.
        """
        return self.find(topic, queue_id) or self._create(topic, queue_id)

    def number_of(self, topic: str, queue_id: int) -> int:
        """Return the number of a queue, created if it does not exist; staged entries stay so.

        Raises like ``find_or_create``.
        """
        numbers = self._numbers.get(topic, _NO_NUMBERS)
        number = numbers[queue_id] if 0 <= queue_id < len(numbers) else _NO_NUMBER
        if number == _NO_NUMBER:
            queue = self._topics.get(topic, _NO_QUEUES).get(queue_id) or self._create(topic, queue_id)
            number = queue.number
        return number

    def take_offset(self, topic: str, queue_id: int) -> tuple[int, int]:
        """Reserve the next queue offset of a queue; return the queue's number and the offset.

        Creates queues and raises like ``number_of``.
        """
        number = self.number_of(topic, queue_id)
        next_offsets = self.next_offsets.values
        queue_offset = next_offsets[number]
        next_offsets[number] = queue_offset + 1
        return number, queue_offset

    def load(
        self,
        *,
        trusted: bool,
        min_physical_offset: int = 0,
        on_topic: Callable[[], object] = lambda: None,
    ) -> None:
        """Load the queues, and find the begin and end of each. Raises StoreDamaged.

        Args:
            on_topic: called after each topic, for progress.
        """
        self.trusted, layer = trusted, self._files.layer
        self.discarded.load()
        topics = layout.consume_queues_dir(self._root)
        for topic in topics_in(layer, topics):
            directory = topics / topic
            if not layer.is_directory(directory):
                raise StoreDamaged(f"{directory}: is no topic's directory; move it out of the store")
            for name in queues_in(layer, directory):
                queue = self._build(topic, _parse_queue_id(directory, name))
                queue.recover(self.drop_unsynced)
                queue.correct_min_offset(min_physical_offset)  # while its file is open
                self._topics.setdefault(topic, {})[queue.queue_id] = queue
            on_topic()

    def write_back(self, least_bytes: int = 1) -> None:
        """Write the tails of at least ``least_bytes``. Raises OSError; unwritten ones stay pending."""
        self.staged.put()
        for queue in list(self._tails):
            if queue.pending_bytes >= least_bytes:
                queue.write_back()

    def write_back_queue(self, queue: ConsumeQueue) -> None:
        """Write one queue's staged entries and its tail. Raises OSError; unwritten ones stay pending."""
        self.staged.put_queue(queue.number)
        queue.write_back()

    def pending(self) -> list[ConsumeQueue]:
        """Return the queues with entries in memory only, nearly oldest first."""
        staged = self.staged.waiting()
        return list(dict.fromkeys([*self._tails, *staged]))

    def due(self, least_bytes: int, kept_bytes: int) -> list[ConsumeQueue]:
        """Return the queues to write back, oldest first: those whose tail has at least ``least_bytes``.

        Others are added, the oldest first, while all tails together exceed ``kept_bytes``. Staged entries do
        not count: they are few, and appending them costs time in each queue.
        """
        excess = sum(map(len, self._tails.values())) - kept_bytes
        due = []
        for queue, tail in self._tails.items():
            if len(tail) >= least_bytes or excess > 0:
                due.append(queue)
                excess -= len(tail)
        return due

    def take_unsynced(self) -> list[Path]:
        """Return the files that were written since the last call, for syncing."""
        return [path for queue in self._all() for path in queue.take_unsynced()]

    def of_topic(self, topic: str) -> list[ConsumeQueue]:
        """Return the queues of a topic."""
        self.staged.put()
        return list(self._topics.get(topic, _NO_QUEUES).values())

    def numbers_of(self, topic: str) -> dict[int, int]:
        """Return the numbers of a topic's queues by id; staged entries stay so."""
        return {queue_id: queue.number for queue_id, queue in self._topics.get(topic, _NO_QUEUES).items()}

    def topics(self) -> list[str]:
        """Return the topics that have queues."""
        return list(self._topics)

    def delete(self, topic: str, before: int = 2**63 - 1) -> None:
        """Delete a topic's queues that end at or before CommitLog offset ``before``.

        The messages stay in the CommitLog until they expire.
        """
        deleted = [queue for queue in self.of_topic(topic) if queue.physical_end <= before]
        self.remove(deleted)
        self.discard(topic, (queue.queue_id for queue in deleted))

    def remove(self, queues: Iterable[ConsumeQueue]) -> None:
        """Remove queues from the store, if they are still in it; ``discard`` must follow."""
        for queue in queues:
            topic, queue_id = queue.topic, queue.queue_id
            ids = self._topics.get(topic, _NO_QUEUES)
            if ids.get(queue_id) is not queue:
                continue
            del ids[queue_id]
            queue.detach()  # callers that still hold it must not write its tail
            queue.next_offset = GONE
            del self.by_number[queue.number]
            if not ids:
                del self._topics[topic]
                self._numbers.pop(topic, None)
            elif queue_id < DENSE_IDS:
                self._numbers[topic][queue_id] = _NO_NUMBER

    def discard(self, topic: str, queue_ids: Iterable[int]) -> None:
        """Move the directories of removed queues away: see ``Discarded``.

        If the topic has no other queues, its whole directory is moved. A directory that cannot be moved is
        logged and left to ``retry_discard``.
        """
        if (ids := self._topics.get(topic)) is None:
            directories = [layout.topic_dir(self._root, topic)]
            if self._ext_size:
                directories.append(layout.topic_ext_dir(self._root, topic))
        else:
            removed = [queue_id for queue_id in queue_ids if queue_id not in ids]
            directories = [path for queue_id in removed for path in self._directories(topic, queue_id)]
        for directory in directories:
            self._discard(directory)

    def retry_discard(self) -> None:
        """Retry to move the directories that could not be moved before."""
        for directory in list(self._unmovable):
            self._discard(directory)

    def _discard(self, directory: Path) -> None:
        try:
            self.discarded.add(directory)
        except OSError as error:
            if directory not in self._unmovable:
                log.warning("%s: cannot be moved, and is tried again: %s", directory, error.strerror)
            self._unmovable[directory] = error
        else:
            self._unmovable.pop(directory, None)

    def _directories(self, topic: str, queue_id: int) -> list[Path]:
        """Return the directories of a queue and of its extension."""
        directories = [layout.consume_queue_dir(self._root, topic, queue_id)]
        if self._ext_size:
            directories.append(layout.consume_queue_ext_dir(self._root, topic, queue_id))
        return directories

    def _all(self) -> Iterator[ConsumeQueue]:
        return (queue for ids in self._topics.values() for queue in ids.values())

    def _set_aside(self, path: Path) -> None:
        layer = self._files.layer
        if layer.size(path):
            move_aside(layer, self._root, path)
        else:
            layer.remove(path)

    def _create(self, topic: str, queue_id: int) -> ConsumeQueue:
        if self._unmovable:
            self._clear_place(topic, queue_id)
        queue = self._build(topic, queue_id)
        self._topics.setdefault(topic, {})[queue_id] = queue
        queue.recover_ext(self.drop_unsynced)  # a deleted queue may have left files
        return queue

    def _clear_place(self, topic: str, queue_id: int) -> None:
        """Move directories of a deleted queue away before it is created again. Raises StoreNotWritable."""
        for directory in self._directories(topic, queue_id):
            for path in self._unmovable.keys() & {directory, directory.parent}:
                self._discard(path)
                if (error := self._unmovable.get(path)) is not None:
                    raise StoreNotWritable(
                        f"{path}: is left of the deleted queue {topic}-{queue_id} and cannot be moved "
                        f"({error.strerror}): allow the move; the queue takes messages then"
                    ) from error

    def _build(self, topic: str, queue_id: int) -> ConsumeQueue:
        directory = layout.consume_queue_dir(self._root, topic, queue_id)
        chain = FileChain(self._files, directory, self._file_size, SETTING, REMEDY, durable=False)
        ext = self._extension(topic, queue_id)
        queue = ConsumeQueue(chain, topic, queue_id, self.next_offsets, self._tails, ext, self.ahead)
        self.by_number[queue.number] = queue
        if queue_id < DENSE_IDS:
            numbers = self._numbers.setdefault(topic, array("q"))
            numbers.extend([_NO_NUMBER] * (queue_id + 1 - len(numbers)))
            numbers[queue_id] = queue.number
        return queue

    def _extension(self, topic: str, queue_id: int) -> ConsumeQueueExt | None:
        if not self._ext_size:
            return None
        directory = layout.consume_queue_ext_dir(self._root, topic, queue_id)
        return ConsumeQueueExt(
            FileChain(self._files, directory, self._ext_size, EXT_SETTING, REMEDY, durable=False)
        )


def _parse_queue_id(directory: Path, name: str) -> int:
    try:
        return layout.parse_queue_id(name)
    except FormatError as error:
        raise StoreDamaged(f"{directory / name}: {error}; move it out of the store") from None
