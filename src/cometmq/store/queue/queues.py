"""All ConsumeQueues of a store, by topic and queue id; made when their first message comes.

Entries are put into their queues when somebody asks for a queue that has some to come: see ``staged``.
"""

import logging
from array import array
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from cometmq.errors import FormatError, StoreDamaged, StoreNotWritable
from cometmq.format import layout
from cometmq.io.open_files import OpenFiles
from cometmq.store.file_chain import FileChain
from cometmq.store.folders import queues_in, topics_in
from cometmq.store.queue.consume_queue import ConsumeQueue
from cometmq.store.queue.consume_queue_ext import ConsumeQueueExt
from cometmq.store.queue.discarded import Discarded
from cometmq.store.queue.entries_ahead import EntriesAhead
from cometmq.store.queue.next_offsets import GONE, NextOffsets
from cometmq.store.queue.staged import Staged

log = logging.getLogger(__name__)

SETTING = "mappedFileSizeConsumeQueue"
EXT_SETTING = "mappedFileSizeConsumeQueueExt"
REMEDY = "run `cometmq store rebuild`"

DENSE_IDS = 1024
"""Queues with smaller ids are found faster: those of a topic are numbered from 0 on."""

_NO_NUMBER = -1
_NO_NUMBERS = array("q")
_NO_QUEUES: dict[int, ConsumeQueue] = {}

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
        discarded: the files of queues that are gone, until they are removed.
        trusted: whether a file of another length tells of a wrong setting, and is not what a crash has left
            of a queue that is gone: while a store is opened that was closed.
    """

    def __init__(self, files: OpenFiles, root: Path, file_size: int, ext_size: int = 0) -> None:
        self._files = files
        self._ext_size = ext_size
        self._root = root
        self._file_size = file_size
        self._topics: dict[str, dict[int, ConsumeQueue]] = {}
        self._numbers: dict[str, array[int]] = {}  # by topic and id; so few bytes stay in a cache
        self._left: dict[Path, OSError] = {}  # directories of queues that are gone, and cannot be moved
        self._tails: dict[ConsumeQueue, bytearray] = {}  # the longest waiting first
        self.ahead = EntriesAhead()
        self.next_offsets = NextOffsets()
        self.by_number: dict[int, ConsumeQueue] = {}
        self.staged = Staged(self.by_number)
        self.discarded = Discarded(files.layer, root)
        self.trusted = False

    def __iter__(self) -> Iterator[ConsumeQueue]:
        """Go through the queues."""
        self.staged.put()
        return self._all()

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """Give a queue, or None if it never had a message."""
        queue = self._topics.get(topic, _NO_QUEUES).get(queue_id)
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
            queue = self._topics.get(topic, _NO_QUEUES).get(queue_id) or self._new(topic, queue_id)
            number = queue.number
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
        self.discarded.load()
        topics = layout.consume_queues_dir(self._root)
        for topic in topics_in(layer, topics):
            directory = topics / topic
            if not layer.is_directory(directory):
                raise StoreDamaged(f"{directory}: is no topic's directory; move it out of the store")
            for name in queues_in(layer, directory):
                queue = self._make(topic, _parse_queue_id(directory, name))
                queue.recover(trusted=trusted)
                queue.correct_min_offset(min_physical_offset)  # while its file is open
                self._topics.setdefault(topic, {})[queue.queue_id] = queue
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
        return [path for queue in self._all() for path in queue.take_unsynced()]

    def of_topic(self, topic: str) -> list[ConsumeQueue]:
        """Return the queues of a topic."""
        self.staged.put()
        return list(self._topics.get(topic, _NO_QUEUES).values())

    def topics(self) -> list[str]:
        """Return the topics that have queues."""
        return list(self._topics)

    def delete(self, topic: str, before: int = 2**63 - 1) -> None:
        """Remove a topic's queues that go no further than CommitLog offset ``before``.

        The messages stay in the CommitLog until they expire.
        """
        gone = [queue for queue in self.of_topic(topic) if queue.physical_end <= before]
        self.forget(gone)
        self.discard(topic, (queue.queue_id for queue in gone))

    def forget(self, queues: Iterable[ConsumeQueue]) -> None:
        """Take queues out of the store, but for those that are no longer in it; ``discard`` must follow."""
        for queue in queues:
            topic, queue_id = queue.topic, queue.queue_id
            ids = self._topics.get(topic, _NO_QUEUES)
            if ids.get(queue_id) is not queue:
                continue
            del ids[queue_id]
            queue.detach()  # whoever still has it must not write its tail
            queue.next_offset = GONE
            del self.by_number[queue.number]
            if not ids:
                del self._topics[topic]
                self._numbers.pop(topic, None)
            elif queue_id < DENSE_IDS:
                self._numbers[topic][queue_id] = _NO_NUMBER

    def discard(self, topic: str, queue_ids: Iterable[int]) -> None:
        """Move the files of queues that are not in the store out of the way: see ``Discarded``.

        If the topic has no other queues, its directory goes as a whole. What the disk does not let go is
        logged, and left to ``discard_left``.
        """
        if (ids := self._topics.get(topic)) is None:
            places = [layout.topic_dir(self._root, topic)]
            if self._ext_size:
                places.append(layout.topic_ext_dir(self._root, topic))
        else:
            gone = [queue_id for queue_id in queue_ids if queue_id not in ids]
            places = [place for queue_id in gone for place in self._places(topic, queue_id)]
        for place in places:
            self._take_away(place)

    def discard_left(self) -> None:
        """Move out of the way what the disk did not let go before."""
        for place in list(self._left):
            self._take_away(place)

    def _take_away(self, place: Path) -> None:
        try:
            self.discarded.take(place)
        except OSError as error:
            if place not in self._left:
                log.warning("%s: cannot be moved, and is tried again: %s", place, error.strerror)
            self._left[place] = error
        else:
            self._left.pop(place, None)

    def _places(self, topic: str, queue_id: int) -> list[Path]:
        """Return where the files of a queue are, and those of its extension."""
        places = [layout.consume_queue_dir(self._root, topic, queue_id)]
        if self._ext_size:
            places.append(layout.consume_queue_ext_dir(self._root, topic, queue_id))
        return places

    def _all(self) -> Iterator[ConsumeQueue]:
        return (queue for ids in self._topics.values() for queue in ids.values())

    def _new(self, topic: str, queue_id: int) -> ConsumeQueue:
        if self._left:
            self._make_room(topic, queue_id)
        queue = self._make(topic, queue_id)
        self._topics.setdefault(topic, {})[queue_id] = queue
        queue.recover_ext(trusted=self.trusted)  # what another life of the queue left
        return queue

    def _make_room(self, topic: str, queue_id: int) -> None:
        """Move files of a queue that is gone out of the way, as another one is made in its place."""
        for place in self._places(topic, queue_id):
            for left in self._left.keys() & {place, place.parent}:
                self._take_away(left)
                if (error := self._left.get(left)) is not None:
                    raise StoreNotWritable(
                        f"{left}: is left of the queue {topic}-{queue_id} that was deleted, and cannot be "
                        f"moved ({error.strerror}): see to it that it can; the queue takes messages then"
                    ) from error

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
