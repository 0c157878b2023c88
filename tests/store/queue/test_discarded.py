"""Directories of queues that are gone: moved out of the way, and removed when there is time."""

import errno
from pathlib import Path
from random import Random

import pytest
from tests.store.conftest import ROOT

from cometmq.errors import IllegalName
from cometmq.format import layout
from cometmq.store.queue.discarded import Discarded
from cometmq.testing.memory_disk import MemoryDisk, os_error
from cometmq.testing.recorded_disk import RecordedDisk

QUEUES = layout.consume_queues_dir(ROOT)
EXTS = layout.consume_queue_exts_dir(ROOT)
HOME = layout.deleted_dir(QUEUES)
FILE = layout.offset_name(0)


def discarded_on(disk: MemoryDisk) -> Discarded:
    discarded = Discarded(disk, ROOT)
    discarded.load()
    return discarded


def put_topic(disk: MemoryDisk, topic: str = "T", folder: Path = QUEUES) -> Path:
    for queue_id in "01":
        directory = folder / topic / queue_id
        disk.make_directory(directory)
        disk.put(directory / FILE, b"entries")
    return folder / topic


def paths_on(disk: MemoryDisk) -> set[Path]:
    return {path for path in [*disk._files, *disk._directories] if ROOT in path.parents}


@pytest.mark.parametrize("folder", [QUEUES, EXTS])
def test_a_directory_gives_way_at_once_and_is_removed_later(disk: MemoryDisk, folder: Path) -> None:
    discarded = discarded_on(disk)
    assert not discarded
    topic = put_topic(disk, folder=folder)
    discarded.add(topic)
    assert discarded and not disk.exists(topic)
    again = put_topic(disk, folder=folder)
    discarded.add(again / "1")
    discarded.remove()
    assert not discarded
    assert paths_on(disk) == {folder, again, again / "0", again / "0" / FILE, layout.deleted_dir(folder)}
    discarded.close()
    assert not disk.exists(layout.deleted_dir(folder))


def test_what_is_not_there_leaves_no_trace(disk: MemoryDisk) -> None:
    discarded = discarded_on(disk)
    discarded.add(QUEUES / "T")
    discarded.close()
    assert paths_on(disk) == set()


def test_what_a_process_leaves_the_next_one_removes_under_other_names(disk: MemoryDisk) -> None:
    discarded_on(disk).add(put_topic(disk))
    discarded = discarded_on(disk)
    assert discarded
    discarded.add(put_topic(disk))
    assert len(disk.names(HOME)) == 2
    discarded.close()
    assert paths_on(disk) == {QUEUES}


def test_neither_a_broker_of_ours_nor_one_in_java_takes_it_for_a_queue(disk: MemoryDisk) -> None:
    """A Java broker loads each directory two levels below whose name is a number, whatever the topic's."""
    discarded = discarded_on(disk)
    discarded.add(put_topic(disk))
    discarded.add(put_topic(disk) / "0")
    assert not any(name.isdecimal() for name in disk.names(HOME))
    with pytest.raises(IllegalName, match="use only the characters"):
        layout.valid_topic(HOME.name)


def test_a_file_that_is_not_the_stores_stays_with_its_directory_and_is_told_of_once(
    disk: MemoryDisk, caplog: pytest.LogCaptureFixture
) -> None:
    topic = put_topic(disk)
    disk.put(topic / "1" / "notes", b"of somebody")
    discarded = discarded_on(disk)
    discarded.add(topic)
    for _ in range(3):
        discarded.remove()
    (place,) = disk.names(HOME)
    left = HOME / place / "1"
    assert (disk.names(HOME / place), disk.names(left), bool(discarded)) == (["1"], ["notes"], True)
    assert caplog.messages == [f"{left}: cannot be removed, and is tried again: Directory not empty"]
    discarded.close()
    disk.remove(left / "notes")
    discarded_on(disk).close()
    assert paths_on(disk) == {QUEUES}


def test_a_file_that_the_disk_does_not_let_go_is_tried_again(
    disk: MemoryDisk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    discarded = discarded_on(disk)
    for topic in ("T", "U"):
        discarded.add(put_topic(disk, topic))
    stuck, remove = HOME / disk.names(HOME)[0] / "1" / FILE, disk.remove

    def refuse(path: Path, *, durable: bool = True) -> None:
        if path == stuck:
            raise os_error(errno.EPERM, path)
        remove(path, durable=durable)

    with monkeypatch.context() as patch:
        patch.setattr(disk, "remove", refuse)
        for _ in range(2):
            discarded.remove()
    assert caplog.messages == [f"{stuck}: cannot be removed, and is tried again: Operation not permitted"]
    assert len(disk.names(HOME)) == 1
    discarded.remove()
    assert disk.names(HOME) == []


def test_nothing_is_removed_before_its_move_is_on_the_disk(disk: MemoryDisk) -> None:
    discarded = discarded_on(disk)
    discarded.add(put_topic(disk))

    def refuse(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disk, "sync_all", refuse)
        discarded.remove()
    assert discarded and len(disk.names(HOME)) == 1
    discarded.remove()
    assert disk.names(HOME) == []


def test_a_loss_of_power_leaves_a_directory_whole_in_its_place_or_none_of_it_there() -> None:
    disk = RecordedDisk()
    disk.make_directory(ROOT)
    for topic in ("T", "U"):
        for queue_id in "01":
            disk.make_directory(QUEUES / topic / queue_id)
            disk.create(QUEUES / topic / queue_id / FILE, 20)
    discarded = discarded_on(disk)
    begin = len(disk.operations)
    for topic in ("T", "U"):
        discarded.add(QUEUES / topic)
    moved = len(disk.operations)
    discarded.remove()
    end, counts = len(disk.operations), set()
    for seed in range(200):
        for number, state in enumerate(disk.states([begin, moved, end], Random(seed))):
            for topic in ("T", "U"):
                files = [state.names(QUEUES / topic / queue_id) for queue_id in "01"]
                counts.add((number, sum(map(len, files))))
            discarded_on(state).close()
            assert not state.exists(HOME)
    assert counts == {(0, 2), (1, 0), (1, 2), (2, 0)}
