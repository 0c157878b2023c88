"""The Index: which messages have a key. Derived, like the ConsumeQueues, and written back like them.

Of the newest file the header and slots are kept in memory, and entries until they are written: in the
order entries, slots, header, so that what a killed process leaves can be repaired from the entries
(each holds the slot's value before it). Full files are only read.

Source: RocketMQ ``store/index/IndexFile.java``, ``store/index/IndexService.java``.
"""

import logging
from pathlib import Path

import numpy as np

from cometmq import kernels
from cometmq.errors import FormatError
from cometmq.format import layout
from cometmq.format.index import (
    ENTRY_SIZE,
    FIRST_ENTRY,
    HEADER_SIZE,
    NO_ENTRY,
    IndexHeader,
    entry_position,
    file_size,
    slot_position,
)
from cometmq.format.java_hash import index_key_hash
from cometmq.io.files import TEMPORARY_SUFFIX
from cometmq.io.open_files import OpenFiles
from cometmq.kernels.ops import PAGE_SIZE, Bytes, Ints, Longs

log = logging.getLogger(__name__)

INSERT_MAX = 16_384
"""Keys inserted at once."""


class IndexFile:
    """One index file.

    Args:
        slot_count: how many slots it has.
        entry_count: how many entries it has room for, the unused first one included.
    """

    def __init__(self, files: OpenFiles, path: Path, slot_count: int, entry_count: int) -> None:
        self.path = path
        self._files = files
        self._slot_count = slot_count
        self._entry_count = entry_count
        self._image_size = slot_position(slot_count)
        self._image: Bytes | None = None  # header and slots; of a full file they are read from the disk
        self._dirty = np.zeros(-(-self._image_size // PAGE_SIZE), np.bool_)
        self._tail = bytearray()
        self._written = FIRST_ENTRY  # number of the first entry that is not in the file yet

    def create(self, previous: IndexHeader | None) -> None:
        """Make the file; its header begins with what the file before it ended with."""
        self._files.layer.make_directory(self.path.parent)
        self._files.create(self.path, file_size(self._slot_count, self._entry_count))
        self._image = np.zeros(self._image_size, np.uint8)
        if previous is not None:
            time, offset = previous.end_time, previous.end_physical_offset
            self._put_header(IndexHeader(time, time, offset, offset))

    def load(self) -> None:
        """Read the file; one that is not full can be inserted into after this. Raises FormatError."""
        expected = file_size(self._slot_count, self._entry_count)
        if (size := self._files.layer.size(self.path)) != expected:
            raise FormatError(f"{self.path}: has {size} bytes, expected {expected}")
        header = IndexHeader.unpack(self._files.get(self.path).read(0, HEADER_SIZE))
        if header.next_entry > self._entry_count or header.begin_time > header.end_time:
            raise FormatError(
                f"{self.path}: header {header} cannot be in a file of {self._entry_count} entries"
            )
        self._written = header.next_entry
        if not header.next_entry >= self._entry_count:
            image = self._files.get(self.path).read(0, self._image_size)
            self._image = np.frombuffer(image, np.uint8).copy()
            self._put_header(header)

    def repair(self) -> None:
        """Take slots back to entries that the header knows: what a killed process leaves of a write-back."""
        if self._image is None:
            return
        entries = self._files.get(self.path).view()
        known = self.header.next_entry
        slots = self._image[HEADER_SIZE:].view(">i4")
        for slot in np.flatnonzero((slots >= known) | (slots < NO_ENTRY)):
            number = int(slots[slot])
            while number >= known:
                at = entry_position(number, self._slot_count) + ENTRY_SIZE - 4
                previous = int.from_bytes(entries[at : at + 4], "big", signed=True)
                number = previous if previous < number < self._entry_count else NO_ENTRY
            slots[slot] = max(number, NO_ENTRY)
            self._dirty[slot_position(int(slot)) // PAGE_SIZE] = True

    @property
    def header(self) -> IndexHeader:
        """What the file says about itself."""
        if self._image is not None:
            return IndexHeader.unpack(self._image[:HEADER_SIZE].tobytes())
        return IndexHeader.unpack(self._files.get(self.path).read(0, HEADER_SIZE))

    @property
    def is_full(self) -> bool:
        """Whether no further key fits."""
        return self.header.next_entry >= self._entry_count

    def insert(self, key_hashes: Ints, physical_offsets: Longs, store_times: Longs) -> int:
        """Insert keys in order; gives how many fitted."""
        assert self._image is not None, "a full file takes no keys"
        entries = np.empty(len(key_hashes) * ENTRY_SIZE, np.uint8)
        taken = kernels.current().index_insert(
            self._image,
            self._dirty,
            entries,
            key_hashes,
            physical_offsets,
            store_times,
            entry_count=self._entry_count,
        )
        self._tail += entries[: taken * ENTRY_SIZE].tobytes()
        return taken

    def find(self, key_hash: int, *, begin_time: int, end_time: int, max_count: int) -> list[int]:
        """Give the CommitLog offsets of records with the key's hash, newest first."""
        data = np.frombuffer(self._files.get(self.path).view(), np.uint8)
        entries = data[self._image_size : entry_position(self._written, self._slot_count)]
        return kernels.current().index_find(
            data[: self._image_size] if self._image is None else self._image,
            entries,
            np.frombuffer(bytes(self._tail), np.uint8),
            key_hash,
            begin_time=begin_time,
            end_time=end_time,
            max_count=max_count,
        )

    def write_back(self) -> None:
        """Write what is in memory only. Raises OSError; it then stays."""
        if self._image is None or not (self._tail or self._dirty.any()):
            return
        file = self._files.get(self.path)
        if self._tail:
            file.write(entry_position(self._written, self._slot_count), self._tail)
            self._written += len(self._tail) // ENTRY_SIZE
            self._tail = bytearray()
        for first, last in reversed(_runs(self._dirty)):  # the page with the header comes last
            part = self._image[first * PAGE_SIZE : last * PAGE_SIZE]
            file.write(first * PAGE_SIZE, part.data)
        self._dirty[:] = False

    def seal(self) -> None:
        """Write back a full file and let its memory go."""
        self.write_back()
        self._image = None

    def _put_header(self, header: IndexHeader) -> None:
        assert self._image is not None
        self._image[:HEADER_SIZE] = np.frombuffer(header.pack(), np.uint8)
        self._dirty[0] = True


class Index:
    """The index files of a store, oldest first.

    Attributes:
        end_offset: CommitLog offset of the newest record that is in the index, -1 if none.
        is_whole: whether loading found all that a clean stop leaves: no file, or the directory, is missing.
    """

    def __init__(self, files: OpenFiles, root: Path, slot_count: int, entry_count: int) -> None:
        self.end_offset = -1
        self.is_whole = False
        self._files = files
        self._root = root
        self._slot_count = slot_count
        self._entry_count = entry_count
        self._index: list[IndexFile] = []

    def load(self, *, trusted: bool) -> None:
        """Find the files. One that is damaged is set aside with all behind it: they will be rebuilt."""
        layer = self._files.layer
        directory = layout.index_dir(self._root)
        self.is_whole = layer.exists(directory)
        names = layer.names(directory)
        for number, name in enumerate(names):
            if name.endswith(TEMPORARY_SUFFIX):
                layer.remove(directory / name)
                continue
            file = self._file(directory / name)
            try:
                layout.parse_index_name(name)
                file.load()
            except FormatError as error:
                log.warning("%s; it is set aside and rebuilt from the CommitLog", error)
                self._set_aside([directory / other for other in names[number:]])
                self.is_whole = False
                break
            if not trusted:
                file.repair()
            self._index.append(file)
        if self._index and self._index[-1].header.next_entry == FIRST_ENTRY:
            self._remove_last()  # made, and not written to before the end
        if self._index:
            self.end_offset = self._index[-1].header.end_physical_offset

    def insert(self, key_hashes: Ints, physical_offsets: Longs, store_times: Longs) -> None:
        """Insert keys in the order of the log; new files are made as they are needed. Raises OSError."""
        at = 0
        while at < len(key_hashes):
            part = slice(at, at + INSERT_MAX)
            file = self._open_file(int(store_times[at]))
            at += file.insert(key_hashes[part], physical_offsets[part], store_times[part])
        if len(key_hashes):
            self.end_offset = int(physical_offsets[-1])

    def find(self, topic: str, key: str, *, begin_time: int, end_time: int, max_count: int) -> list[int]:
        """Give the CommitLog offsets of messages that may have the key, ascending.

        Only hashes are compared: who must be exact looks at the messages' keys.
        """
        key_hash = index_key_hash(topic, key)
        found: list[int] = []
        for file in reversed(self._index):
            header = file.header
            if header.begin_time <= end_time and header.end_time >= begin_time:
                found += file.find(
                    key_hash, begin_time=begin_time, end_time=end_time, max_count=max_count - len(found)
                )
            if header.begin_time < begin_time or len(found) >= max_count:
                break
        return sorted(found)

    @property
    def last_update(self) -> tuple[int, int]:
        """Store time and CommitLog offset of the newest record that is in the index."""
        if not self._index:
            return 0, 0
        header = self._index[-1].header
        return header.end_time, header.end_physical_offset

    def write_back(self) -> None:
        """Write what is in memory only. Raises OSError; it then stays."""
        self._files.layer.make_directory(layout.index_dir(self._root))
        for file in self._index[-1:]:
            file.write_back()

    def paths(self) -> list[Path]:
        """Give the files, oldest first."""
        return [file.path for file in self._index]

    def remove_from(self, physical_offset: int) -> None:
        """Remove the files that know records at or behind ``physical_offset``: they must be rebuilt."""
        while self._index and self.end_offset >= physical_offset:
            self._remove_last()
            self.end_offset = self._index[-1].header.end_physical_offset if self._index else -1

    def _open_file(self, time_ms: int) -> IndexFile:
        last = self._index[-1] if self._index else None
        if last is not None and not last.is_full:
            return last
        if last is not None:
            last.seal()
        path = layout.index_path(self._root, time_ms)
        while self._files.layer.exists(path):  # two files can begin in the same millisecond
            time_ms += 1
            path = layout.index_path(self._root, time_ms)
        file = self._file(path)
        file.create(last.header if last is not None else None)
        self._index.append(file)
        return file

    def _remove_last(self) -> None:
        file = self._index.pop()
        self._files.forget(file.path)
        self._files.layer.remove(file.path)

    def _file(self, path: Path) -> IndexFile:
        return IndexFile(self._files, path, self._slot_count, self._entry_count)

    def _set_aside(self, paths: list[Path]) -> None:
        for path in paths:
            self._files.forget(path)
            self._files.layer.rename(path, path.parent.parent / f"{path.name}.damaged")


def _runs(flags: np.ndarray) -> list[tuple[int, int]]:
    """Give the runs of set flags as (first, behind the last)."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], flags.astype(np.int8), [0]))))
    return [(int(first), int(last)) for first, last in edges.reshape(-1, 2)]
