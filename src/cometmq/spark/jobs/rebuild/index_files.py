"""Write the index files, each in one task: keys are numbered in the order of the log, a block to each file.

With keys numbered from 0, file ``n`` holds keys ``n × room`` to ``(n + 1) × room``. The time of its first
entry is relative to the last key of the file before it, so that key is read, too.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from cometmq import kernels
from cometmq.format import layout
from cometmq.format.index import FIRST_ENTRY, HEADER_SIZE, IndexHeader
from cometmq.io.files import Disk, FileLayer
from cometmq.io.open_files import OpenFiles
from cometmq.spark.jobs.rebuild.entries import KEY_ROW
from cometmq.spark.jobs.rebuild.queue_files import attempt, put_into_place
from cometmq.store.index.index import INSERT_MAX, TAIL_MAX
from cometmq.store.index.index_file import IndexFile

BLOCKS: Final = "blocks"


class Stretch(NamedTuple):
    """The keys of a stretch of the log, by number.

    Attributes:
        begin: CommitLog offset at which the stretch begins.
        rank: number of its first key.
        size: number of its keys.
    """

    begin: int
    rank: int
    size: int


class Keys(NamedTuple):
    """Keys (of KEY_ROW), some of which are in ``block``; the first has number ``rank``."""

    block: int
    rank: int
    data: bytes


def room_of(entry_count: int) -> int:
    """Return the number of keys in a full file."""
    return entry_count - FIRST_ENTRY


def ranked(counts: Iterable[tuple[int, int]]) -> list[Stretch]:
    """Number the keys of stretches, as (begin, count) in any order."""
    stretches, rank = [], 0
    for begin, count in sorted(counts):
        stretches.append(Stretch(begin, rank, count))
        rank += count
    return stretches


def blocks_of(stretch: Stretch, room: int) -> range:
    """Return the numbers of the files that read a stretch's keys, with the one right behind them."""
    return range(stretch.rank // room, (stretch.rank + stretch.size) // room + 1)


def write_blocks(keys: Iterable[Keys], building: Path, slot_count: int, entry_count: int) -> Iterator[int]:
    """Write index files as ``blocks/<number>`` under ``building``; yield the number of each.

    Args:
        keys: sorted by block, in the order of the log.

    Raises OSError; complete files stay.
    """
    kernels.load_if_possible()
    layer = Disk()
    for block, of_block in groupby(keys, key=lambda part: part.block):
        with attempt(layer, building) as directory:
            files = OpenFiles(layer, writable=True)
            try:
                file = IndexFile(files, directory / str(block), slot_count, entry_count)
                if _fill(file, of_block, room_of(entry_count)):
                    file.write_back()
                    layer.sync(file.path)
                    put_into_place(layer, file.path, building / BLOCKS / str(block))
            finally:
                files.close()
        yield block


def name_blocks(layer: FileLayer, building: Path) -> int:
    """Move the blocks to ``index/``, each named by its first record's store time; return how many."""
    layer.make_directory(layout.index_dir(building))
    numbers = sorted(map(int, layer.names(building / BLOCKS)))
    for number in numbers:
        made = building / BLOCKS / str(number)
        time_ms = _first_time(layer, made)
        while layer.exists(place := layout.index_path(building, time_ms)):
            time_ms += 1  # two files can begin in the same millisecond
        layer.rename(made, place)
    return len(numbers)


def _fill(file: IndexFile, parts: Iterable[Keys], room: int) -> bool:
    """Insert a block's keys into its file; return whether there are any."""
    before: IndexHeader | None = None
    is_made = False
    for block, rank, data in parts:
        keys = np.frombuffer(data, KEY_ROW)
        first, end = max(block * room - rank, 0), (block + 1) * room - rank
        if 0 < first <= len(keys):
            last = keys[first - 1]
            before = IndexHeader(
                end_time=int(last["store_time"]), end_physical_offset=int(last["physical_offset"])
            )
        mine = keys[first:end]
        if len(mine) and not is_made:
            file.create(before)
            is_made = True
        for at in range(0, len(mine), INSERT_MAX):
            part = mine[at : at + INSERT_MAX]
            hashes, offsets, times = (np.ascontiguousarray(part[name]) for name in KEY_ROW.names or ())
            file.insert(hashes, offsets, times)
            file.write_tail(TAIL_MAX)
    return is_made


def _first_time(layer: FileLayer, path: Path) -> int:
    opened = layer.open(path, writable=False)
    try:
        return IndexHeader.unpack(opened.read(0, HEADER_SIZE)).begin_time
    finally:
        opened.close()
