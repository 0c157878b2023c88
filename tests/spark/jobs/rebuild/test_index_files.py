"""Index files by blocks, without Spark: they are what the store's own index writes."""

from pathlib import Path

import numpy as np
import pytest

from cometmq.io.files import Disk
from cometmq.io.open_files import OpenFiles
from cometmq.spark.jobs.rebuild.entries import KEY_ROW
from cometmq.spark.jobs.rebuild.index_files import (
    Keys,
    Stretch,
    blocks_of,
    name_blocks,
    ranked,
    room_of,
    write_blocks,
)
from cometmq.store.index.index import Index

SLOTS, ENTRIES = 7, 20
TIME = 1_700_000_000_000


def keys(count: int) -> np.ndarray:
    """Keys of records that are stored some seconds apart, two of each."""
    made = np.zeros(count, KEY_ROW)
    made["key_hash"] = np.arange(count) * 7_919 % 1_000
    made["physical_offset"] = np.arange(count) // 2 * 300
    made["store_time"] = TIME + np.arange(count) // 2 * 1_700
    return made


def by_blocks(all_keys: np.ndarray, cuts: list[int], building: Path) -> list[bytes]:
    """Write what stretches between ``cuts`` hold, each block in a task of its own."""
    parts = np.split(all_keys, cuts)
    stretches = ranked((number, len(part)) for number, part in enumerate(parts))
    wanted = [
        Keys(block, stretch.rank, parts[stretch.begin].tobytes())
        for stretch in stretches
        for block in blocks_of(stretch, room_of(ENTRIES))
    ]
    for block in sorted({part.block for part in wanted}, reverse=True):
        of_block = [part for part in wanted if part.block == block]
        assert list(write_blocks(of_block, building, SLOTS, ENTRIES)) == [block]
    count = name_blocks(Disk(), building)
    files = sorted((building / "index").iterdir())
    assert len(files) == count
    return [path.read_bytes() for path in files]


@pytest.mark.parametrize("count", [0, 1, 19, 20, 38, 57, 100])
@pytest.mark.parametrize("cuts", [[], [19], [1, 18, 19, 38], [10, 50]])
def test_files_are_those_of_one_machine(tmp_path: Path, count: int, cuts: list[int]) -> None:
    all_keys = keys(count)
    files = OpenFiles(Disk(), writable=True)
    index = Index(files, tmp_path / "one", SLOTS, ENTRIES)
    hashes, offsets, times = (np.ascontiguousarray(all_keys[name]) for name in KEY_ROW.names or ())
    index.insert(hashes, offsets, times)
    index.write_back()
    expected = [path.read_bytes() for path in index.paths()]
    files.close()
    assert by_blocks(all_keys, [cut for cut in cuts if cut < count], tmp_path / "many") == expected


def test_keys_are_numbered_by_the_log() -> None:
    stretches = ranked([(900, 5), (0, 3), (400, 0)])
    assert stretches == [Stretch(0, 0, 3), Stretch(400, 3, 0), Stretch(900, 3, 5)]
    assert [list(blocks_of(stretch, 4)) for stretch in stretches] == [[0], [0], [0, 1, 2]]


def test_files_that_begin_in_the_same_millisecond_have_names_of_their_own(tmp_path: Path) -> None:
    all_keys = keys(60)
    all_keys["store_time"] = TIME
    assert len(by_blocks(all_keys, [], tmp_path)) == 4
    names = [int(path.name) for path in sorted((tmp_path / "index").iterdir())]
    assert [name - names[0] for name in names] == [0, 1, 2, 3]
