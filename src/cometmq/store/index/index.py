"""The Index: messages by key. It can be rebuilt from the CommitLog, and is written back like ConsumeQueues.

Only the newest file is written to. A killed process loses what is in memory only, and after a loss of power
unsynced data can be any mixture of old and new pages. So after an unclean stop only synced data counts: the
rest is cut off and indexed again.

Source: RocketMQ ``store/index/IndexService.java``.
"""

from collections.abc import Callable
from itertools import takewhile
from pathlib import Path

import numpy as np

from cometmq.errors import FormatError
from cometmq.format import layout
from cometmq.format.index import ENTRY_SIZE, FIRST_ENTRY
from cometmq.format.java.java_hash import index_key_hash
from cometmq.io.files import TEMPORARY_SUFFIX
from cometmq.io.open_files import OpenFiles
from cometmq.io.regular import NotRegularFile
from cometmq.kernels.arrays import Ints, Longs
from cometmq.logs import get_logger
from cometmq.store.files.folders import files_in
from cometmq.store.index.index_file import IndexFile
from cometmq.store.reading import Reading

log = get_logger(__name__)

TAIL_MAX = 4 * 1024 * 1024
"""Most bytes of entries in memory only; they are written before the header that counts them."""
INSERT_MAX = 16_384
"""Keys inserted at once."""
PART_SIZE = 256 * 1024
"""Bytes of slots written at once: a millisecond where the system has to find memory for them."""


class Index:
    """The index files of a store, oldest first.

    Attributes:
        end_offset: CommitLog offset of the newest record in the index, -1 if none; some of its keys may be
            missing, since a full file can end between any two keys.
        is_whole: whether loading found the directory and no damaged file.
    """

    def __init__(self, files: OpenFiles, root: Path, slot_count: int, entry_count: int) -> None:
        self.end_offset = -1
        self.is_whole = False
        self._files = files
        self._root = root
        self._slot_count = slot_count
        self._entry_count = entry_count
        self._index: list[IndexFile] = []
        self._end_count = 0  # how many keys of the newest record are in the index
        self._unsynced: set[Path] = set()

    def load(self) -> None:
        """Load the files. A damaged one is set aside with all behind it: they will be rebuilt."""
        layer = self._files.layer
        directory = layout.index_dir(self._root)
        self.is_whole = layer.exists(directory)
        names = files_in(layer, directory)
        for number, name in enumerate(names):
            if name.endswith(TEMPORARY_SUFFIX):
                layer.remove(directory / name)
                continue
            file = self._file(directory / name)
            try:
                layout.parse_index_name(name)
                file.load()
            except (FormatError, NotRegularFile) as error:
                log.warning("%s; it is set aside and rebuilt from the CommitLog", error)
                self._set_aside([directory / other for other in names[number:]])
                self.is_whole = False
                break
            self._index.append(file)
        # By offset, not by name: names step back with the clock, for example at the end of summer time.
        self._index.sort(key=lambda file: file.header.begin_physical_offset)
        for file in [file for file in self._index if file.header.next_entry == FIRST_ENTRY]:
            self._remove(file)  # created, but not written to before the process ended
        self._find_end()

    def cut(self, physical_offset: int, store_time_at: Callable[[int], int]) -> None:
        """Remove the records at or behind ``physical_offset``: see ``IndexFile.cut``."""
        while self._index and not self._index[-1].cut(physical_offset, store_time_at):
            self._remove(self._index[-1])
        self._unsynced.update(file.path for file in self._index[-1:])
        self._find_end()

    def insert(self, key_hashes: Ints, physical_offsets: Longs, store_times: Longs) -> None:
        """Insert keys in the order of the log, except those that the index has already.

        Files are created as needed. Raises OSError; keys inserted until then stay.

        Args:
            key_hashes: ``int32[n]``.
            physical_offsets: ``int64[n]``, ascending.
            store_times: ``int64[n]``, ms.
        """
        at = self._count_known(physical_offsets)
        while at < len(key_hashes):
            part = slice(at, at + INSERT_MAX)
            file = self._open_file(int(store_times[at]))
            taken = file.insert(key_hashes[part], physical_offsets[part], store_times[part])
            self._move_end(physical_offsets[at : at + taken])
            at += taken
            if file.write_tail(TAIL_MAX):
                self._unsynced.add(file.path)

    def _count_known(self, physical_offsets: Longs) -> int:
        begin, end = np.searchsorted(physical_offsets, [self.end_offset, self.end_offset + 1])
        return int(min(begin + self._end_count, end))

    def _move_end(self, physical_offsets: Longs) -> None:
        if len(physical_offsets):
            end_offset = int(physical_offsets[-1])
            count = len(physical_offsets) - int(np.searchsorted(physical_offsets, end_offset))
            self._end_count = count + (self._end_count if end_offset == self.end_offset else 0)
            self.end_offset = end_offset

    def find(
        self, topic: str, key: str, *, begin_time: int, end_time: int, max_count: int
    ) -> Reading[list[int]]:
        """Find the CommitLog offsets of messages that may have the key, ascending.

        Only hashes are compared: callers check the messages' keys.
        """
        key_hash = index_key_hash(topic, key)
        found: list[int] = []
        for file in self.newest_first:
            if file not in self._index:
                break  # expired while a thread read the one before
            header = file.header
            if header.begin_time <= end_time and header.end_time >= begin_time:
                found += yield from file.find(
                    key_hash, begin_time=begin_time, end_time=end_time, max_count=max_count - len(found)
                )
            if header.begin_time < begin_time or len(found) >= max_count:
                break
        return sorted(found)

    @property
    def newest_first(self) -> list[IndexFile]:
        """The files, newest first: the order of lookups."""
        return self._index[::-1]

    @property
    def last_update(self) -> tuple[int, int]:
        """Store time and CommitLog offset of the newest record in the index."""
        if not self._index:
            return 0, 0
        header = self._index[-1].header
        return header.end_time, header.end_physical_offset

    @property
    def full_time(self) -> int:
        """Store time of the newest record in the full files, ms; 0 if no file is full."""
        return self._index[-2].header.end_time if len(self._index) > 1 else 0

    def write_back(self) -> None:
        """Write what is in memory only. Raises OSError; it stays then."""
        self._files.layer.make_directory(layout.index_dir(self._root), durable=False)
        for file in self._index[-1:]:
            self._write_back(file)

    def write_part(self) -> bool:
        """Write a part of what was in memory only when the first part was; return whether that was the last.

        Raises OSError; the part stays then.
        """
        if not self._index or self._index[-1].is_written:
            return True
        self._unsynced.add(self._index[-1].path)
        return self._index[-1].write_part(PART_SIZE)

    def take_unsynced(self) -> list[Path]:
        """Return the files that were written since the last call, for syncing."""
        paths, self._unsynced = sorted(self._unsynced), set()
        return paths

    def take_expired(self, min_physical_offset: int) -> list[Path]:
        """Remove the files whose records are all before a CommitLog offset from the index, never the newest.

        They stay on the disk; the caller removes them in the order returned.
        """
        expired = list(
            takewhile(lambda file: file.header.end_physical_offset < min_physical_offset, self._index[:-1])
        )
        self._index = self._index[len(expired) :]
        for file in expired:
            self._unsynced.discard(file.path)
            self._files.forget(file.path)
        return [file.path for file in expired]

    def newest_entries(self, physical_offset: int, count_max: int) -> list[tuple[str, bytes]]:
        """Return entries of records at or behind a CommitLog offset, the newest, with their files' names."""
        found = []
        for file in self.newest_first:
            data = file.entries_from(physical_offset)[-count_max * ENTRY_SIZE :]
            if not data or count_max <= 0:
                break
            found.append((file.path.name, data))
            count_max -= len(data) // ENTRY_SIZE
        return found

    def begin_offsets(self) -> dict[str, int]:
        """Return the CommitLog offset of the first record in each file, by the file's name."""
        return {file.path.name: file.header.begin_physical_offset for file in self._index}

    def paths(self) -> list[Path]:
        """Return the paths of the files, oldest first."""
        return [file.path for file in self._index]

    def _open_file(self, time_ms: int) -> IndexFile:
        last = self._index[-1] if self._index else None
        if last is not None and not last.is_full:
            return last
        if last is not None:
            self._write_back(last)
            last.seal()
        while self._files.layer.exists(path := layout.index_path(self._root, time_ms)):
            time_ms += 1  # two files can begin in the same millisecond
        file = self._file(path)
        file.create(last.header if last is not None else None)
        self._index.append(file)
        return file

    def _write_back(self, file: IndexFile) -> None:
        if not file.is_written:
            file.write_back()
            self._unsynced.add(file.path)

    def _find_end(self) -> None:
        """Find the newest record and count its keys in the index."""
        self.end_offset, self._end_count = -1, 0
        for file in reversed(self._index):
            header = file.header
            self.end_offset = max(self.end_offset, header.end_physical_offset)
            count = file.count_last(self.end_offset)
            self._end_count += count
            if count < header.next_entry - FIRST_ENTRY:
                break  # else all of the file is that record's, and the file before may end with its keys, too

    def _remove(self, file: IndexFile) -> None:
        self._index.remove(file)
        self._unsynced.discard(file.path)
        self._files.forget(file.path)
        self._files.layer.remove(file.path)

    def _file(self, path: Path) -> IndexFile:
        return IndexFile(self._files, path, self._slot_count, self._entry_count)

    def _set_aside(self, paths: list[Path]) -> None:
        for path in paths:
            self._files.forget(path)
            self._files.layer.rename(path, path.parent.parent / f"{path.name}.damaged")
