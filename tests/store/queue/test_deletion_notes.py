"""What was deleted since the ledger's large file was written."""

import errno
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.store.conftest import ROOT

from cometmq.format import layout
from cometmq.store.queue.deletion_notes import NAME, DeletionNotes
from cometmq.testing.memory_disk import MemoryDisk, os_error

PATH = layout.config_path(ROOT, NAME)


def notes_on(disk: MemoryDisk) -> DeletionNotes:
    notes = DeletionNotes(disk, ROOT)
    notes.load()
    return notes


def always(*_: object) -> bool:
    return True


def test_topics_and_queues_are_read_again(disk: MemoryDisk) -> None:
    notes = notes_on(disk)
    assert not notes
    notes.add({"A": 5}, {"B": {0: 6}}, always)
    notes.add({"C": 7}, {"B": {12: 8}}, always)
    again = notes_on(disk)
    assert (again.topics, again.queues) == ({"A": 5, "C": 7}, {"B": {0: 6, 12: 8}})
    assert again and notes.queues == again.queues


def test_what_is_needed_no_more_is_left_out_of_the_next_write(disk: MemoryDisk) -> None:
    notes = notes_on(disk)
    notes.add({"A": 5, "B": 6, "C": 7}, {}, always)
    notes.add({"D": 1}, {}, lambda topic, offset: topic == "A" or offset > 6)
    assert notes_on(disk).topics == {"A": 5, "C": 7, "D": 1}


def test_none_are_left_once_the_ledger_says_the_same(disk: MemoryDisk) -> None:
    notes = notes_on(disk)
    notes.clear()
    assert not disk.exists(PATH), "there was nothing to write"
    notes.add({"A": 5}, {"B": {0: 6}}, always)
    notes.clear()
    assert not notes and not notes_on(disk)


@pytest.mark.parametrize("change", [lambda notes: notes.add({"B": 6}, {}, always), DeletionNotes.clear])
def test_what_the_disk_refuses_changes_nothing(
    disk: MemoryDisk, change: Callable[[DeletionNotes], None]
) -> None:
    notes = notes_on(disk)
    notes.add({"A": 5}, {}, always)

    def refuse(*_: object) -> None:
        raise os_error(errno.ENOSPC, PATH)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disk, "save", refuse)
        with pytest.raises(OSError, match="No space"):
            change(notes)
    assert notes.topics == notes_on(disk).topics == {"A": 5}


@pytest.mark.parametrize("content", [b"", b'{"topics":5}', b'{"queues":{"A":{"x":1}}}'])
def test_a_file_of_something_else_counts_as_none(
    disk: MemoryDisk, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    disk.make_directory(PATH.parent)
    disk.put(PATH, content)
    with caplog.at_level(logging.WARNING):
        assert not notes_on(disk)
    assert PATH.name in caplog.text


def test_threads_that_write_at_once_lose_nothing(disk: MemoryDisk) -> None:
    notes = notes_on(disk)
    with ThreadPoolExecutor(4) as threads:
        for n in range(100):
            threads.submit(notes.add, {f"T{n}": n}, {"Q": {n: n}}, always)
    again = notes_on(disk)
    assert again.topics == {f"T{n}": n for n in range(100)}
    assert again.queues == {"Q": {n: n for n in range(100)}}
