from pathlib import Path

import numpy as np
from tests.store.conftest import ROOT, SMALL, OpenStore, new_message

from cometmq.format import layout
from cometmq.format.java.java_hash import index_key_hash
from cometmq.store.index.index_view import IndexView
from cometmq.testing.memory_disk import MemoryDisk


def view_of(disk: MemoryDisk, path: Path) -> IndexView:
    data = np.frombuffer(disk.load(path), np.uint8)
    return IndexView(path, data, SMALL.max_hash_slot_num, SMALL.max_index_num)


def test_header_slots_and_entries_can_be_read_and_keys_found(open_store: OpenStore, disk: MemoryDisk) -> None:
    store = open_store()
    offsets = [store.append([new_message(keys=f"k{n} all")])[0].physical_offset for n in range(10)]
    store.close()
    directory = layout.index_dir(ROOT)
    view = view_of(disk, directory / disk.names(directory)[0])
    assert view.header.next_entry == 21
    assert len(view.entries) == 21
    assert view.entries["physical_offset"][1:].tolist() == [offset for offset in offsets for _ in range(2)]
    assert len(view.slots) == SMALL.max_hash_slot_num
    assert view.find(index_key_hash("Orders", "k3")) == [offsets[3]]
    assert view.find(index_key_hash("Orders", "all")) == offsets[::-1]
    assert view.find(index_key_hash("Orders", "none")) == []


def test_an_index_file_that_nothing_was_written_to_has_no_entries() -> None:
    view = IndexView(Path("new"), np.zeros(1_080, np.uint8), 10, 50)
    assert (view.header.next_entry, len(view.entries), view.find(7)) == (1, 1, [])
