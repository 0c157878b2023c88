"""One ConsumeQueue: the places in the CommitLog of a queue's messages.

It can be rebuilt from the CommitLog, so new entries are kept in memory (the *tail*) and written to the file
by the page. A killed process loses only tails; recovery dispatches those records again.

Source: RocketMQ ``store/ConsumeQueue.java``.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from cometmq.format.queue_entry import FILLER, SIZE, QueueEntry, pack, unpack
from cometmq.message import Buffer
from cometmq.store.files.file_chain import FileChain
from cometmq.store.queue import entry_reads
from cometmq.store.queue.consume_queue_ext import ConsumeQueueExt
from cometmq.store.queue.entries_ahead import EntriesAhead
from cometmq.store.queue.entry_blocks import addresses_of, are_fillers, count_good
from cometmq.store.queue.next_offsets import NextOffsets
from cometmq.store.reading import Reading, run

BLOCK_ENTRIES = 3_200
"""Number of entries that recovery checks at once."""

ENTRY_DTYPE = np.dtype([("physical_offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])
assert ENTRY_DTYPE.itemsize == SIZE

_FILLER = pack(*FILLER)
_NO_OFFSET = 2**63 - 1


class ConsumeQueue:
    """The entries of one queue, by queue offset.

    Args:
        tails: the tails of all queues that have one.
        ahead: the cache of entries read ahead.

    Attributes:
        min_offset: first queue offset whose message is still in the CommitLog.
        max_offset: queue offset behind the last dispatched message.
        number: its place in ``NextOffsets``.
        physical_end: CommitLog offset behind the last dispatched record of this queue.
        ext: its extension, or None if it has none.
    """

    __slots__ = (
        "_ahead",
        "_corrected_by",
        "_filled_end",
        "_next_offsets",
        "_tail",
        "_tail_start",
        "_tails",
        "_unsynced_from",
        "chain",
        "ext",
        "max_offset",
        "min_offset",
        "number",
        "physical_end",
        "queue_id",
        "topic",
    )

    def __init__(
        self,
        chain: FileChain,
        topic: str,
        queue_id: int,
        next_offsets: NextOffsets | None = None,
        tails: "dict[ConsumeQueue, bytearray] | None" = None,
        ext: ConsumeQueueExt | None = None,
        ahead: EntriesAhead | None = None,
    ) -> None:
        self._tails = {} if tails is None else tails
        self._ahead = ahead or EntriesAhead()
        self._next_offsets = next_offsets or NextOffsets()
        self.number = self._next_offsets.add()
        self.chain = chain
        self.ext = ext
        self.topic = topic
        self.queue_id = queue_id
        self.min_offset = self.max_offset = 0
        self.physical_end = 0
        self._corrected_by = _NO_OFFSET  # the CommitLog offset that ``min_offset`` was last corrected by
        self._filled_end = 0  # queue offset from which on files are empty, but for entries written since
        self._tail = bytearray()
        self._tail_start = 0  # queue offset of the tail's first entry
        self._unsynced_from = _NO_OFFSET  # first byte that was written since the last sync

    @property
    def next_offset(self) -> int:
        """Queue offset of the next message to append; ahead of ``max_offset`` until dispatch."""
        return self._next_offsets.values[self.number]

    @next_offset.setter
    def next_offset(self, queue_offset: int) -> None:
        self._next_offsets.values[self.number] = queue_offset

    @property
    def pending_bytes(self) -> int:
        """Number of bytes that are in memory only."""
        return len(self._tail)

    def put(self, queue_offset: int, physical_offset: int, size: int, tags_code: int) -> bool:
        """Append the entry of one message; return False if the queue has it already."""
        if queue_offset != self.max_offset and not self.skip_to(queue_offset):
            return False
        if not self._tail:
            self._tails[self] = self._tail
        self._tail += pack(physical_offset, size, tags_code)
        self.max_offset = queue_offset + 1
        self.physical_end = physical_offset + size
        return True

    def put_new(self, queue_offset: int, entries: bytes | memoryview, physical_end: int) -> None:
        """Append consecutive entries of new messages, as bytes."""
        if queue_offset != self.max_offset:
            self.skip_to(queue_offset)
        if not self._tail:
            self._tails[self] = self._tail
        self._tail += entries
        self.max_offset = queue_offset + len(entries) // SIZE
        self.physical_end = physical_end

    def put_run(self, queue_offset: int, entries: np.ndarray) -> int:
        """Append the missing ones of consecutive entries (``[n]`` of ENTRY_DTYPE); return their count.

        A record that does not lie behind the last dispatched one has its entry already, or is of a topic that
        was deleted and created again since.
        """
        old = int(np.searchsorted(entries["physical_offset"], self.physical_end))
        known = max(old, self.max_offset - queue_offset)
        entries = entries[known:]
        if not len(entries):
            return 0
        physical_end = int(entries[-1]["physical_offset"]) + int(entries[-1]["size"])
        self.put_new(queue_offset + known, entries.tobytes(), physical_end)
        return len(entries)

    def clear(self) -> None:
        """Remove all entries: the topic was deleted and created again. Raises OSError."""
        self.remove()
        self.detach()

    def detach(self) -> None:
        """Drop all entries; the files stay on the disk until ``remove``."""
        self.chain.detach()
        if self.ext is not None:
            self.ext.detach()
        self._tail = bytearray()
        self._tails.pop(self, None)
        self._set_bounds(0)

    def remove(self) -> None:
        """Remove all files. Raises OSError; it may be called again."""
        self.chain.remove()
        if self.ext is not None:
            self.ext.remove()

    def read(self, queue_offset: int, count: int) -> bytes:
        """Return the entries from ``queue_offset`` on: 20 bytes each, fewer at the end."""
        return bytes(run(self.entries(queue_offset, count)))

    def entries(self, queue_offset: int, count: int) -> Reading[Buffer]:
        """Read entries like ``read``, as a reading."""
        end = min(queue_offset + count, self.max_offset)
        return entry_reads.entries(self.chain, self._tail, self._tail_start, queue_offset, end)

    def resident_entries(self, queue_offset: int, count: int) -> Buffer | None:
        """Return the entries like ``read`` if none must be waited for, else None: see ``entry_reads``."""
        end, tail_start = min(queue_offset + count, self.max_offset), self._tail_start
        is_in_tail = queue_offset >= tail_start
        if is_in_tail and end == self.max_offset:  # nothing to read, nor to cache
            return self._tail[(queue_offset - tail_start) * SIZE :]
        cached = self._ahead.cached(self.number, queue_offset, end)
        if cached is not None:
            return cached
        ahead_max = self.max_offset if is_in_tail else tail_start
        read = partial(entry_reads.resident, self.chain, self._tail, tail_start)
        return self._ahead.read(self.number, queue_offset, end, ahead_max, self.min_offset, read)

    def entry(self, queue_offset: int) -> QueueEntry:
        """Return one entry, which must exist (``min_offset`` ≤ offset < ``max_offset``)."""
        return unpack(self.read(queue_offset, 1))

    def find_message(self, queue_offset: int) -> Reading[tuple[int, QueueEntry] | None]:
        """Find the first entry that is no filler, at or behind ``queue_offset``, and its queue offset."""
        if queue_offset < self.max_offset:
            data = yield from self.entries(queue_offset, 1)
            if data and not (entry := unpack(data)).is_filler:
                return queue_offset, entry
        while data := (yield from self.entries(queue_offset, BLOCK_ENTRIES)):
            block = np.frombuffer(data, ENTRY_DTYPE)
            messages = np.flatnonzero(~are_fillers(block))
            if len(messages):
                return queue_offset + int(messages[0]), QueueEntry(*block[messages[0]].tolist())
            queue_offset += len(block)
        return None

    def last_message(self) -> QueueEntry | None:
        """Return the last entry that is no filler, or None."""
        first, end = self._first_offset, self.max_offset
        if end > first and not (entry := self.entry(end - 1)).is_filler:
            return entry
        while end > first:
            begin = max(first, end - BLOCK_ENTRIES)
            block = np.frombuffer(self.read(begin, end - begin), ENTRY_DTYPE)
            messages = np.flatnonzero(~are_fillers(block))
            if len(messages):
                return QueueEntry(*block[messages[-1]].tolist())
            end = begin
        return None

    def write_back(self) -> None:
        """Write the tail to the files. Raises OSError; the tail then stays."""
        if self.ext is not None:
            self.ext.write_back()
        if self._tail:
            self._unsynced_from = min(self._unsynced_from, self._tail_start * SIZE)
            self.chain.write(self._tail_start * SIZE, self._tail)
            self._tail_start += len(self._tail) // SIZE
            self._tail = bytearray()
        self._tails.pop(self, None)

    def take_unsynced(self) -> list[Path]:
        """Return the files that were written since the last call, for syncing."""
        begin, self._unsynced_from, chain = self._unsynced_from, _NO_OFFSET, self.chain
        written = [chain.path(start) for start in chain.starts if start + chain.file_size > begin]
        return written if self.ext is None else self.ext.take_unsynced() + written

    def recover(self, drop_unsynced: Callable[[Path], object] | None) -> None:
        """Load the files and find the end of their entries; what is behind it stays in the files.

        Args:
            drop_unsynced: see ``FileChain.load``; None after a clean stop, when only the last file is
                checked. Otherwise the last three are, up to the first entry that cannot follow.
        """
        self.chain.load(drop_unsynced)
        starts = self.chain.starts
        self._set_bounds(self.chain.first_offset // SIZE)
        if not starts:
            return
        first = starts[-1] if drop_unsynced is None else starts[max(0, len(starts) - 3)]
        self._recover_from(first // SIZE)
        while self.max_offset * SIZE <= first and first > starts[0]:
            first -= self.chain.file_size  # that file was created, but the data written to it is lost
            self._recover_from(first // SIZE)

    def cut(self, physical_offset: int) -> None:
        """Drop the entries of records at or behind a CommitLog offset, which will be dispatched again.

        In the files they may be unsynced data of an earlier process.
        """
        if self.physical_end > physical_offset:
            self._filled_end = max(self._filled_end, self.max_offset)
            min_offset, corrected_by = self.min_offset, self._corrected_by
            self._set_bounds(self._first_from(physical_offset))
            self._set_physical_end()
            if min_offset <= self.max_offset:
                self.min_offset, self._corrected_by = min_offset, corrected_by
        self._unsynced_from = min(self._unsynced_from, self.max_offset * SIZE)

    def recover_ext(self, drop_unsynced: Callable[[Path], object] | None = None) -> None:
        """Recover the extension's files, after the entries: see ``recover``. Raises StoreDamaged."""
        if self.ext is None:
            return
        end, addresses = self.max_offset, np.empty(0)
        while end > self._first_offset and not len(addresses):
            begin = max(self._first_offset, end - BLOCK_ENTRIES)
            addresses = self._addresses(begin, end - begin)
            end = begin
        # The greatest, not the last, which may be damaged: no address may be used twice.
        self.ext.recover(int(addresses.max()) if len(addresses) else None, drop_unsynced)

    def truncate(self, physical_end: int) -> None:
        """Cut the entries whose records do not end before CommitLog offset ``physical_end``."""
        if self.physical_end > physical_end:
            self.write_back()
            self.cut(physical_end)
            self.clear_behind_end()

    def behind_end(self) -> Iterator[tuple[int, bytes]]:
        """Read the data behind the end, file by file, and the position of each piece in the queue's bytes."""
        begin = self.max_offset if self._filled_end > self.max_offset else _NO_OFFSET // SIZE
        return self.chain.filled_from(begin * SIZE)

    def clear_behind_end(self) -> None:
        """Overwrite data behind the end with zeros, so that no later start reads entries there."""
        if self._filled_end > self.max_offset:
            self._filled_end = 0
            cleared_from = self.chain.clear_from(self.max_offset * SIZE)
            self._unsynced_from = min(self._unsynced_from, cleared_from)

    def correct_min_offset(self, min_physical_offset: int) -> None:
        """Set ``min_offset`` to the first entry whose record is still in the CommitLog."""
        if self._corrected_by != min_physical_offset:
            found = run(self.find_message(self._first_offset))
            if found is not None and found[1].size and found[1].physical_offset < min_physical_offset:
                found = run(self.find_message(self._first_from(min_physical_offset)))
            self.min_offset = self.max_offset if found is None else found[0]
            self._ahead.discard(self.number)
            self._corrected_by = min_physical_offset

    def take_expired(self, min_physical_offset: int, vouched_offset: int) -> list[Path]:
        """Correct ``min_offset``; detach the files before it and return them: see ``detach_before``.

        After a crash the first file that is kept shows how far the queue had come. So it must be on the
        disk, that is, hold an entry for a record before CommitLog offset ``vouched_offset``.
        """
        first = self.min_offset
        if first == self.max_offset or self.entry(first).physical_offset < min_physical_offset:
            self.correct_min_offset(min_physical_offset)
        bound = self.min_offset * SIZE // self.chain.file_size * self.chain.file_size
        if bound // SIZE < self.max_offset and self.entry(bound // SIZE).physical_offset >= vouched_offset:
            bound -= self.chain.file_size
        expired = self.chain.detach_before(bound)
        if self.ext is None:
            return expired
        addresses = self._addresses(self.min_offset, BLOCK_ENTRIES)
        return expired + (self.ext.detach_before(int(addresses.min())) if len(addresses) else [])

    @property
    def _first_offset(self) -> int:
        """Queue offset of the first entry, filler or not."""
        return self.chain.first_offset // SIZE if self.chain.starts else self._tail_start

    def _first_from(self, physical_offset: int) -> int:
        """Return the first queue offset whose record, for a filler the next one, is not before an offset."""
        begins = range(self._first_offset, self.max_offset, BLOCK_ENTRIES)
        at = bisect_left(begins, physical_offset, key=self._physical_offset_from)
        if at == 0:
            return self._first_offset
        begin = begins[at - 1]
        block = np.frombuffer(self.read(begin, BLOCK_ENTRIES), ENTRY_DTYPE)
        without = are_fillers(block) | (block["size"] == 0)
        offsets = np.where(without, _NO_OFFSET, block["physical_offset"].astype(np.int64))
        following = np.minimum.accumulate(offsets[::-1])[::-1]
        return begin + int(np.searchsorted(following, physical_offset))

    def _physical_offset_from(self, queue_offset: int) -> int:
        """Return the physical offset of the first message at or behind a queue offset, a key for bisection.

        An empty entry, which was never synced, counts as lying behind all others.
        """
        found = run(self.find_message(queue_offset))
        if found is None:
            return self.physical_end
        return found[1].physical_offset if found[1].size else _NO_OFFSET

    def skip_to(self, queue_offset: int) -> bool:
        """Append fillers, for lost messages, up to ``queue_offset``; False if the queue is beyond it."""
        if queue_offset < self.max_offset:
            return False
        if self.max_offset == 0 and not self.chain.starts:
            self._tail_start = self.max_offset = queue_offset - queue_offset % (self.chain.file_size // SIZE)
            self.min_offset = queue_offset
        self._corrected_by = _NO_OFFSET
        if not self._tail:
            self._tails[self] = self._tail
        self._tail += _FILLER * (queue_offset - self.max_offset)
        self.max_offset = queue_offset
        return True

    def _recover_from(self, first: int) -> None:
        """Find the end of the valid entries, from queue offset ``first`` on."""
        start = self.chain.starts[-1]
        capacity = -(-(start + self.chain.file(start).data_end(0)) // SIZE)  # behind it the file is empty
        end, last = first, -1
        self._filled_end = capacity
        while end < capacity:
            count = min(BLOCK_ENTRIES, capacity - end)
            block = np.frombuffer(self.chain.read(end * SIZE, count * SIZE), ENTRY_DTYPE)
            good, last = count_good(block, last)
            end += good
            if good < len(block):
                rest = block[good:]
                if end + len(rest) >= capacity and not rest.tobytes().strip(b"\0"):
                    self._filled_end = end
                break
        self._set_bounds(end)
        self._set_physical_end()

    def _addresses(self, queue_offset: int, count: int) -> np.ndarray:
        return addresses_of(np.frombuffer(self.read(queue_offset, count), ENTRY_DTYPE))

    def _set_bounds(self, end: int) -> None:
        self.max_offset = self.next_offset = self._tail_start = end
        self._ahead.discard(self.number)
        self.min_offset = self.chain.first_offset // SIZE
        self._corrected_by = _NO_OFFSET

    def _set_physical_end(self) -> None:
        last = self.last_message()
        self.physical_end = 0 if last is None else last.physical_offset + last.size
