"""All ConsumeQueues of a store, by topic and queue id; made when their first message comes.

Entries are put into their queues when somebody asks for a queue that has some to come: see ``staged``.
"""

import logging
from array import array
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from cometmq.errors import FormatError, StoreDamaged, StoreNotWritable
from cometmq.format import layout
from cometmq.io.open_files import OpenFiles
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.consume_queue_ext import ConsumeQueueExt
from cometmq.store.entries_ahead import EntriesAhead
from cometmq.store.file_chain import FileChain
from cometmq.store.folders import queues_in, topics_in
from cometmq.store.next_offsets import GONE, NextOffsets
from cometmq.store.staged import Staged

log = logging.getLogger(__name__)

SETTING = "mappedFileSizeConsumeQueue"
EXT_SETTING = "mappedFileSizeConsumeQueueExt"
REMEDY = "run `cometmq store rebuild`"

DENSE_IDS = 1024
"""Queues with smaller ids are found faster: those of a topic are numbered from 0 on."""

_NO_NUMBER = -1
_NO_NUMBERS = array("q")

QueueKey = tuple[str, int]


class Queues:
    """The ConsumeQueues under one store directory.

    Args:
        files: where open files are kept.
        root: the store directory.
        file_size: length of a ConsumeQueue file.
        ext_size: length of a ConsumeQueueExt file; 0 if queues have none.

    Attributes:
        next_offsets: what the next message of each queue gets, by the queue's number.
        ahead: entries that were read with others, by the queue's number.
        by_number: the queues by their numbers.
        staged: entries that are still to be put; they are, before a queue is given out.
        trusted: whether a file of another length tells of a wrong setting, and is not what a crash has left
            of a queue that is gone: while a store is opened that was closed.
    """

    def __init__(self, files: OpenFiles, root: Path, file_size: int, ext_size: int = 0) -> None:
        self._files = files
        self._ext_size = ext_size
        self._root = root
        self._file_size = file_size
        self._queues: dict[QueueKey, ConsumeQueue] = {}
        self._numbers: dict[str, array[int]] = {}  # by topic and id; so few bytes stay in a cache
        self._left: dict[QueueKey, ConsumeQueue] = {}  # gone, but not all of their files
        self._topics_left: set[str] = set()  # maybe without queues, and with directories
        self._told: set[str] = set()  # what could not be removed
        self._tails: dict[ConsumeQueue, bytearray] = {}  # the longest waiting first
        self.ahead = EntriesAhead()
        self.next_offsets = NextOffsets()
        self.by_number: dict[int, ConsumeQueue] = {}
        self.staged = Staged(self.by_number)
        self.trusted = False

    def __iter__(self) -> Iterator[ConsumeQueue]:
        """Go through the queues."""
        self.staged.put()
        return iter(self._queues.values())

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """Give a queue, or None if it never had a message."""
        queue = self._queues.get((topic, queue_id))
        if queue is not None and queue.max_offset < self.next_offsets.values[queue.number]:
            self.staged.put_queue(queue.number)  # what its readers wait for may be there
        return queue

    def get(self, topic: str, queue_id: int) -> ConsumeQueue:
        """Give a queue, made if it is not there.

        Raises IllegalName for an illegal topic, StoreNotWritable if files of a deleted one are in the way.
        """
        return self.find(topic, queue_id) or self._new(topic, queue_id)

    def take_offset(self, topic: str, queue_id: int) -> tuple[int, int]:
        """Give the number of a queue, and the queue offset that its next message gets, now taken.

        The queue is made if it is not there; staged entries stay so. Raises like ``get``.
        """
        numbers = self._numbers.get(topic, _NO_NUMBERS)
        number = numbers[queue_id] if 0 <= queue_id < len(numbers) else _NO_NUMBER
        if number == _NO_NUMBER:
            number = (self._queues.get((topic, queue_id)) or self._new(topic, queue_id)).number
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
        """Find the queues that are there, and where each begins and ends. Raises StoreDamaged.

        Args:
            on_topic: called after each topic, for there may be many.
        """
        self.trusted, layer = trusted, self._files.layer
        topics = layout.consume_queues_dir(self._root)
        for topic in topics_in(layer, topics):
            directory = topics / topic
            if not layer.is_directory(directory):
                raise StoreDamaged(f"{directory}: is no topic's directory; move it out of the store")
            for name in queues_in(layer, directory):
                queue = self._make(topic, _parse_queue_id(directory, name))
                queue.recover(trusted=trusted)
                queue.correct_min_offset(min_physical_offset)  # while its file is open
                self._queues[topic, queue.queue_id] = queue
            on_topic()

    def write_back(self, least_bytes: int = 1) -> None:
        """Write the tails that have grown to ``least_bytes``. Raises OSError; what is left stays pending."""
        self.staged.put()
        for queue in list(self._tails):
            if queue.pending_bytes >= least_bytes:
                queue.write_back()

    def write_back_queue(self, queue: ConsumeQueue) -> None:
        """Write what one queue has in memory only. Raises OSError; what is left stays pending."""
        self.staged.put_queue(queue.number)
        queue.write_back()

    def pending(self) -> list[ConsumeQueue]:
        """Give the queues that have entries in memory only, those that have them longest first, nearly."""
        staged = self.staged.waiting()
        return list(dict.fromkeys([*self._tails, *staged]))

    def due(self, least_bytes: int, kept_bytes: int) -> list[ConsumeQueue]:
        """Give the queues whose tail has grown to ``least_bytes``, those that wait longest first.

        And of the others those that wait longest, while all tails together have more than ``kept_bytes``.
        What is staged does not count: it is not much, and putting it costs each queue.
        """
        excess = sum(map(len, self._tails.values())) - kept_bytes
        due = []
        for queue, tail in self._tails.items():
            if len(tail) >= least_bytes or excess > 0:
                due.append(queue)
                excess -= len(tail)
        return due

    def take_unsynced(self) -> list[Path]:
        """Give the files that were written since the last call: they must be synced."""
        return [path for queue in self._queues.values() for path in queue.take_unsynced()]

    def delete(self, topic: str, before: int = 2**63 - 1) -> None:
        """Remove a topic's queues that go no further than CommitLog offset ``before``: see ``remove``.

        The messages stay in the CommitLog until they expire.
        """
        self.staged.put()
        of_topic = [
            key for key, queue in self._queues.items() if key[0] == topic and queue.physical_end <= before
        ]
        self.remove(of_topic, {topic})

    def unused(self, before: int, is_used: Callable[[str, int], bool]) -> list[QueueKey]:
        """Give the queues that nobody uses and that go no further than CommitLog offset ``before``."""
        return [
            (queue.topic, queue.queue_id)
            for queue in self
            if queue.physical_end <= before
            and queue.next_offset == queue.max_offset
            and not is_used(queue.topic, queue.queue_id)
        ]

    def remove(self, keys: Iterable[QueueKey], topics: set[str]) -> None:
        """Remove queues, and the directories of those of their ``topics`` that have no other.

        They are gone on return, but for files that the disk does not let go: these are logged, and left to
        ``remove_left``.
        """
        for key in keys:
            queue = self._queues.pop(key)
            queue.let_go()  # whoever still has it must not write its tail
            queue.next_offset = GONE
            del self.by_number[queue.number]
            if queue.queue_id < DENSE_IDS:
                self._numbers[queue.topic][queue.queue_id] = _NO_NUMBER
            self._left[key] = queue
        self._topics_left |= topics
        for topic in topics - {topic for topic, _ in self._queues}:
            self._numbers.pop(topic, None)
        self.remove_left()

    def remove_left(self) -> None:
        """Remove what the disk still has of queues that are gone; what it does not let go is left again."""
        for key, queue in list(self._left.items()):
            if self._is_removed(queue.remove):
                del self._left[key]
        used = {topic for topic, _ in self._queues}
        for topic in sorted(self._topics_left - {topic for topic, _ in self._left}):
            if topic in used or self._is_removed(partial(self._remove_topic, topic)):
                self._topics_left.remove(topic)

    def _is_removed(self, remove: Callable[[], None]) -> bool:
        """Remove something; tell whether it is gone. What the disk does not let go is logged once."""
        try:
            remove()
        except OSError as error:
            path = str(error.filename or self._root)
            if path not in self._told:
                self._told.add(path)
                log.warning("%s: cannot be removed, and is tried again: %s", path, error.strerror)
            return False
        return True

    def _remove_topic(self, topic: str) -> None:
        self._files.layer.remove_directory(layout.topic_dir(self._root, topic))
        if self._ext_size:
            self._remove_exts(layout.topic_ext_dir(self._root, topic))

    def _remove_exts(self, directory: Path) -> None:
        """Remove a topic's directory of extensions, with those of queues whose own files are gone already."""
        for name in queues_in(self._files.layer, directory):
            FileChain(self._files, directory / name, self._ext_size, EXT_SETTING).remove()
        self._files.layer.remove_directory(directory)

    def _new(self, topic: str, queue_id: int) -> ConsumeQueue:
        if (gone := self._left.get((topic, queue_id))) is not None:
            self._clear(gone)
        queue = self._queues[topic, queue_id] = self._make(topic, queue_id)
        queue.recover_ext(trusted=self.trusted)  # what another life of the queue left
        return queue

    def _clear(self, gone: ConsumeQueue) -> None:
        """Remove the files of a queue that is gone, as another one is made in its place."""
        try:
            gone.remove()
        except OSError as error:
            raise StoreNotWritable(
                f"{error.filename}: is left of the queue {gone.topic}-{gone.queue_id} that was deleted, and "
                f"cannot be removed ({error.strerror}): see to it that it can; the queue takes messages then"
            ) from error
        del self._left[gone.topic, gone.queue_id]

    def _make(self, topic: str, queue_id: int) -> ConsumeQueue:
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
