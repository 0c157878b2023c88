"""Commits: when they come, who sees what before and after, and what a disk that refuses them means."""

import threading
from collections.abc import Callable

import pytest
from msgspec.structs import replace
from tests.store.conftest import SMALL, OpenStore, new_message

from cometmq.errors import StoreNotWritable
from cometmq.io.clock import ManualClock
from cometmq.store import GetStatus
from cometmq.store.log import commit
from cometmq.store.settings import PAGE_SIZE
from cometmq.testing.memory_disk import MemoryDisk, MemoryFile

WAIT_S = 60
POOL = replace(SMALL, mapped_file_size_commit_log=65_536, transient_store_pool_enable=True)
QUICK = replace(POOL, commit_interval_commit_log=1)
RARELY = replace(POOL, commit_interval_commit_log=1_000_000)


class Owner:
    """Runs what threads ask of it, when the test says so."""

    def __init__(self) -> None:
        self.asked: list[Callable[[], None]] = []
        self.is_asked = threading.Event()

    def run_soon(self, task: Callable[[], None]) -> None:
        self.asked.append(task)
        self.is_asked.set()

    def work(self) -> None:
        assert self.is_asked.wait(WAIT_S)
        self.is_asked.clear()
        for task in self.asked:
            task()


def test_only_committed_messages_are_read(open_store: OpenStore) -> None:
    owner = Owner()
    store = open_store(RARELY, run_soon=owner.run_soon)
    (at,) = store.append([new_message()])
    assert store.pointers[1:] == (at.size, 0, 0, 0, 0)
    assert store.get("Orders", 0, 0).status is GetStatus.NO_MESSAGE_IN_QUEUE
    assert store.read_record(0) is None
    assert store.flusher._committer is not None
    store.flusher._committer.commit()
    assert store.pointers[1:] == (at.size, at.size, 0, at.size, 0)
    owner.work()
    assert store.dispatched_offset == at.size
    assert store.get("Orders", 0, 0).status is GetStatus.FOUND
    assert store.read_record(0) is not None


def test_enough_pages_are_committed_by_themselves_and_their_owner_told(open_store: OpenStore) -> None:
    owner = Owner()
    store = open_store(QUICK, run_soon=owner.run_soon)
    store.append([new_message(body=bytes(4 * PAGE_SIZE))])
    owner.work()
    assert store.dispatched_offset == store.committed_offset == store.written_offset
    assert store.flushed_offset == 0


def test_who_appends_enough_pages_wakes_the_thread(open_store: OpenStore) -> None:
    owner = Owner()
    store = open_store(RARELY, run_soon=owner.run_soon)
    store.append([new_message(body=bytes(4 * PAGE_SIZE))])
    owner.work()
    assert store.dispatched_offset == store.written_offset


def test_little_is_committed_once_enough_time_has_passed(open_store: OpenStore, clock: ManualClock) -> None:
    owner = Owner()
    store = open_store(QUICK, run_soon=owner.run_soon)
    store.append([new_message()])
    assert store.committed_offset == 0
    clock.advance(QUICK.commit_commit_log_thorough_interval)
    owner.work()
    assert store.committed_offset == store.written_offset


def test_a_sync_commits_first(open_store: OpenStore) -> None:
    store = open_store(RARELY, run_soon=Owner().run_soon)
    store.append([new_message()])
    store.wait_flushed().result(WAIT_S)
    assert store.flushed_offset == store.committed_offset == store.written_offset


def test_without_an_owner_who_can_be_asked_an_append_commits(open_store: OpenStore) -> None:
    store = open_store(RARELY)
    store.append([new_message()])
    assert store.dispatched_offset == store.committed_offset == store.written_offset


def test_an_append_that_is_too_far_ahead_commits(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit, "UNCOMMITTED_MAX", 1_000)
    store = open_store(RARELY, run_soon=Owner().run_soon)
    store.append([new_message(body=bytes(500))])
    assert store.committed_offset == 0
    store.append([new_message(body=bytes(500))])
    assert store.committed_offset == store.written_offset


def test_closing_commits_and_syncs_all(open_store: OpenStore, disk: MemoryDisk) -> None:
    store = open_store(RARELY, run_soon=Owner().run_soon)
    store.append([new_message()] * 5)
    store.close()
    again = open_store(RARELY, disk.after_power_loss())
    assert again.recovered.clean and again.max_queue_offset("Orders", 0) == 5


def test_a_commit_that_fails_refuses_messages_loses_none_and_is_tried_again(
    open_store: OpenStore, disk: MemoryDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = Owner()
    store = open_store(RARELY, run_soon=owner.run_soon)
    store.append([new_message()])

    def refuse(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(MemoryFile, "write", refuse)
        with pytest.raises(StoreNotWritable, match=r"commit failed: cannot write .*Input/output error"):
            store.wait_flushed().result(WAIT_S)
        with pytest.raises(StoreNotWritable, match="commit failed"):
            store.append([new_message()])
    assert store.flushed_offset == 0
    assert store.flusher._committer is not None
    store.flusher._committer.commit()
    store.append([new_message()])
    store.wait_flushed().result(WAIT_S)
    again = open_store(RARELY, disk.after_power_loss())
    assert again.max_queue_offset("Orders", 0) == 2
