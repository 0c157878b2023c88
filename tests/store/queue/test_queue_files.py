from tests.store.conftest import ROOT, SMALL, OpenStore, new_message

from cometmq.format import layout, queue_entry
from cometmq.format.queue_entry import FILLER
from cometmq.store.directory import StoreDirectory
from cometmq.store.queue.queue_files import QueueFiles
from cometmq.testing.memory_disk import MemoryDisk


def queue_of(disk: MemoryDisk) -> QueueFiles:
    disk.make_directory(layout.commitlog_dir(ROOT))
    queue = StoreDirectory(ROOT, SMALL, disk).queue("Orders", 0)
    queue.chain.find_files()
    return queue


def test_entries_and_ends_are_those_of_the_last_file_with_data(
    open_store: OpenStore, disk: MemoryDisk
) -> None:
    store = open_store()
    last = [store.append([new_message()])[0] for _ in range(25)][-1]
    store.close()
    queue = queue_of(disk)
    assert len(queue.entries(0)) == 20
    assert queue.entries(400)["physical_offset"][4] == last.physical_offset
    assert queue.written_end() == 25
    end = last.physical_offset + last.size
    assert queue.physical_end(room=end) == end
    assert queue.physical_end(room=end - 1) == last.physical_offset
    assert queue.physical_end(room=0) == 0


def test_fillers_are_entries_but_point_nowhere(disk: MemoryDisk) -> None:
    path = layout.consume_queue_path(ROOT, "Orders", 0, 0)
    disk.make_directory(path.parent)
    disk.put(path, (queue_entry.pack(*FILLER) * 3).ljust(400, b"\0"))
    disk.put(layout.commitlog_path(ROOT, 0), bytes(4_096))
    assert (queue_of(disk).written_end(), queue_of(disk).physical_end(2**40)) == (3, 0)


def test_a_queue_without_files_is_empty(disk: MemoryDisk) -> None:
    assert (queue_of(disk).written_end(), queue_of(disk).physical_end(100)) == (0, 0)
