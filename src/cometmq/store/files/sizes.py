"""Infer the file sizes that a store was written with from its files, when there is no settings file.

The length of a CommitLog or ConsumeQueue file is the setting itself. That of an index file is 40 + 4 × slots
+ 20 × entries: RocketMQ's default has four entries to a slot, so this proportion is tried, and checked by the
last entry, whose record the header names and to which its slot points.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from cometmq.errors import FormatError, SettingsError
from cometmq.format import layout
from cometmq.format.index import (
    ENTRY_SIZE,
    FIRST_ENTRY,
    HEADER_SIZE,
    SLOT_SIZE,
    IndexEntry,
    IndexHeader,
    entry_position,
    slot_of,
    slot_position,
    unpack_slot,
)
from cometmq.format.queue_entry import SIZE as QUEUE_ENTRY_SIZE
from cometmq.io.files import File, FileLayer
from cometmq.store.files.folders import files_in, queues_in, topics_in
from cometmq.store.foreign import file_length
from cometmq.store.settings import EXT_SIZE_MIN, FILE_SIZE_MIN, StoreSettings, from_properties

ENTRIES_PER_SLOT = 4
"""Of an index file by RocketMQ's defaults."""
LOOKED_AT_MAX = 1_000
"""Most files of a kind that are examined; the most frequent length counts."""


class IndexSizes(NamedTuple):
    """The numbers of slots and entries that an index file has room for."""

    slot_count: int
    entry_count: int


def infer_settings(layer: FileLayer, root: Path) -> StoreSettings:
    """Return settings with the sizes of the store's files; the defaults where there is no file yet.

    Raises SettingsError if the sizes of the index cannot be inferred.
    """
    queues, exts = layout.consume_queues_dir(root), layout.consume_queue_exts_dir(root)
    sizes = {
        "mappedFileSizeCommitLog": _usual_length(layer, _commit_log_files(layer, root), _is_commit_log_size),
        "mappedFileSizeConsumeQueue": _usual_length(layer, _queue_files(layer, queues), _is_queue_size),
        "mappedFileSizeConsumeQueueExt": _usual_length(layer, _queue_files(layer, exts), _is_ext_size),
    }
    if (index := _index_sizes(layer, layout.index_dir(root))) is not None:
        sizes |= {"maxHashSlotNum": index.slot_count, "maxIndexNum": index.entry_count}
    return from_properties({name: size for name, size in sizes.items() if size})


def infer_index_sizes(file: File) -> IndexSizes | None:
    """Return the sizes of an index file from a few of its bytes; None if they cannot be inferred."""
    slot_count, rest = divmod(file.size - HEADER_SIZE, SLOT_SIZE + ENTRIES_PER_SLOT * ENTRY_SIZE)
    if rest or slot_count <= 0:
        return None
    header = IndexHeader.unpack(file.read(0, HEADER_SIZE))
    if header.next_entry == FIRST_ENTRY:
        return IndexSizes(slot_count, ENTRIES_PER_SLOT * slot_count)
    if not FIRST_ENTRY < header.next_entry <= ENTRIES_PER_SLOT * slot_count:
        return None
    number = header.next_entry - 1
    last = IndexEntry.unpack(file.read(entry_position(number, slot_count), ENTRY_SIZE))
    newest = unpack_slot(file.read(slot_position(slot_of(last.key_hash, slot_count)), SLOT_SIZE))
    if last.physical_offset != header.end_physical_offset or newest != number:
        return None
    return IndexSizes(slot_count, ENTRIES_PER_SLOT * slot_count)


def _index_sizes(layer: FileLayer, directory: Path) -> IndexSizes | None:
    """Return the sizes of the index files; None if there are no files. Raises SettingsError."""
    paths = list(_named(layer, directory, layout.parse_index_name))
    length = _usual_length(layer, paths, lambda length: length > HEADER_SIZE)
    for path in paths:
        if file_length(layer, path) != length:
            continue
        file = layer.open(path, writable=False)
        try:
            sizes = infer_index_sizes(file)
        finally:
            file.close()
        if sizes is not None:
            return sizes
    if not length:
        return None
    raise SettingsError(
        f"{directory}: files of {length} bytes do not show how many slots and entries they have room for: "
        "give the broker's settings file, or one with maxHashSlotNum and maxIndexNum, with --config"
    )


def _usual_length(layer: FileLayer, paths: Iterable[Path], is_possible: Callable[[int], bool]) -> int:
    """Return the most frequent length of the files, of equals the greatest; 0 if there is none."""
    lengths = Counter(
        filter(is_possible, (file_length(layer, path) for path in islice(paths, LOOKED_AT_MAX)))
    )
    return max(lengths, key=lambda length: (lengths[length], length), default=0)


def _is_commit_log_size(length: int) -> bool:
    return length >= FILE_SIZE_MIN


def _is_queue_size(length: int) -> bool:
    return length > 0 and length % QUEUE_ENTRY_SIZE == 0


def _is_ext_size(length: int) -> bool:
    return length >= EXT_SIZE_MIN


def _commit_log_files(layer: FileLayer, root: Path) -> Iterator[Path]:
    return _named(layer, layout.commitlog_dir(root), layout.parse_offset_name)


def _queue_files(layer: FileLayer, topics: Path) -> Iterator[Path]:
    for topic in _directories(layer, topics, topics_in(layer, topics)):
        for queue in _directories(layer, topic, queues_in(layer, topic)):
            yield from _named(layer, queue, layout.parse_offset_name)


def _directories(layer: FileLayer, parent: Path, names: Iterable[str]) -> Iterator[Path]:
    """Yield the directories among the names; ``verify`` reports the others."""
    paths = (parent / name for name in names)
    return (path for path in paths if layer.is_directory(path))


def _named(layer: FileLayer, directory: Path, parse: Callable[[str], int]) -> Iterator[Path]:
    """Yield the files in ``directory`` whose names ``parse`` accepts."""
    for name in files_in(layer, directory):
        try:
            parse(name)
        except FormatError:
            continue
        yield directory / name
