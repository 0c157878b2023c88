"""The three ways of writing: the same bytes, the same pointers, the same answers."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.store.conftest import ROOT, SMALL, OpenStore, new_message

from cometmq.errors import StoreNotWritable
from cometmq.format.record import decode
from cometmq.io.clock import ManualClock
from cometmq.io.files import Disk
from cometmq.io.open_files import OpenFiles
from cometmq.store import MessageStore, StoreSettings
from cometmq.store.files.file_chain import FileChain
from cometmq.store.log.write_mapped import WriteMapped
from cometmq.store.log.write_path import WriteChannel
from cometmq.store.log.write_pool import WritePool
from cometmq.store.settings import from_properties
from cometmq.testing.memory_disk import MemoryDisk

CHANNEL = SMALL
MAPPED = replace(SMALL, write_without_mmap=False)
POOL = replace(SMALL, transient_store_pool_enable=True)
PATHS = {"channel": CHANNEL, "mapped": MAPPED, "pool": POOL}

Batches = list[list[int]]


@pytest.fixture(params=PATHS)
def path_settings(request: pytest.FixtureRequest) -> StoreSettings:
    """Settings of each write path in turn."""
    return PATHS[request.param]


def later(_: object) -> None:
    """An owner who does what threads ask of it when it pleases."""


def log_of(disk: MemoryDisk) -> dict[str, bytes]:
    directory = ROOT / "commitlog"
    return {name: disk.load(directory / name) for name in disk.names(directory)}


def append_all(store: MessageStore, batches: Batches) -> None:
    for batch in batches:
        store.append([new_message(body=bytes([size % 256]) * size) for size in batch])


def append_until_refused(store: MessageStore) -> int:
    for stored in range(100):
        try:
            store.append([new_message(body=bytes(3_000))])
        except StoreNotWritable:
            return stored
    raise AssertionError("the disk is never full")


@pytest.mark.parametrize(
    ("values", "path"),
    [
        ({}, WriteChannel),
        ({"writeWithoutMmap": "false"}, WriteMapped),
        ({"transientStorePoolEnable": "true"}, WritePool),
        ({"transientStorePoolEnable": "true", "writeWithoutMmap": "false"}, WritePool),
    ],
)
def test_rocketmqs_own_settings_choose(open_store: OpenStore, values: dict[str, str], path: type) -> None:
    store = open_store(from_properties(values | {"mappedFileSizeCommitLog": "8192"}))
    assert type(store._log._path) is path


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, 3_000), min_size=1, max_size=5), max_size=8))
def test_all_leave_the_same_bytes(batches: Batches) -> None:
    logs = []
    for path in PATHS.values():
        disk = MemoryDisk()
        with MessageStore.open(ROOT, path, files=disk, clock=ManualClock(), run_soon=later) as store:
            append_all(store, batches)
        logs.append(log_of(disk))
    assert logs[0] == logs[1] == logs[2]


APPENDS = st.lists(st.integers(0, 3_000), min_size=1, max_size=4)
STEPS = st.lists(st.one_of(APPENDS, st.integers(0, 12), st.none()), max_size=12)
"""Batches to append; free blocks that the disk has from now on; None to commit."""


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
@settings(max_examples=60, deadline=None)
@given(steps=STEPS)
def test_what_was_taken_on_a_disk_that_is_full_at_times_is_there_and_nothing_else(
    path: StoreSettings, steps: list[list[int] | int | None]
) -> None:
    disk, taken = MemoryDisk(), 0
    seldom = replace(path, commit_interval_commit_log=1_000_000, flush_interval_commit_log=1_000_000)
    store = MessageStore.open(ROOT, seldom, files=disk, clock=ManualClock(), run_soon=later)
    for step in [*steps, None]:
        if step is None:
            store._log.commit()
        elif isinstance(step, int):
            disk.space_bytes = disk.usage(ROOT).used + step * 4_096
        else:
            try:
                store.append(
                    [new_message(body=b"%d" % (taken + n) + bytes(size)) for n, size in enumerate(step)]
                )
            except StoreNotWritable:
                continue
            taken += len(step)
    killed = disk.after_kill()
    killed.space_bytes = 2**40
    store.close()
    with MessageStore.open(ROOT, path, files=killed, clock=ManualClock()) as again:
        assert [int(decode(record).body.rstrip(b"\0")) for record in all_records(again)] == list(range(taken))
        assert again.recovered.damages == [] and again.recovered.set_aside is None


def all_records(store: MessageStore) -> list[bytes]:
    found: list[bytes] = []
    while len(found) < store.max_queue_offset("Orders", 0):
        found += store.get("Orders", 0, len(found)).records
    return found


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_a_real_disk_gets_them_too(path: StoreSettings, tmp_path: Path) -> None:
    batches = [[100] * 7, [2_000, 3_000], [1], [8_000], [50] * 200]
    disk = MemoryDisk()
    clock = ManualClock()
    seldom, other_seldom = (replace(each, flush_interval_commit_log=1_000_000) for each in (path, CHANNEL))
    with (
        MessageStore.open(tmp_path, seldom, clock=clock) as store,
        MessageStore.open(ROOT, other_seldom, files=disk, clock=clock) as other,
    ):
        append_all(store, batches)
        append_all(other, batches)
        assert store.pointers == other.pointers
        assert store.get("Orders", 0, 0).records == other.get("Orders", 0, 0).records
    directory = tmp_path / "commitlog"
    assert {name: Disk().load(directory / name) for name in Disk().names(directory)} == log_of(disk)
    with MessageStore.open(tmp_path, path, clock=clock) as again:
        assert again.recovered.clean and again.max_queue_offset("Orders", 0) == sum(map(len, batches))


def test_a_full_disk_refuses_loses_nothing_and_takes_messages_again_once_there_is_space(
    open_store: OpenStore, disk: MemoryDisk, path_settings: StoreSettings
) -> None:
    store = open_store(path_settings)
    disk.space_bytes = 40 * 4_096
    stored = append_until_refused(store)
    written = store.written_offset
    with pytest.raises(StoreNotWritable, match=r"disk full under .*: free some space"):
        store.append([new_message(body=bytes(3_000))] * 2)
    assert store.written_offset == written
    assert store.max_queue_offset("Orders", 0) == stored > 3
    disk.space_bytes = 2**40
    store.append([new_message(body=b"again")])
    assert store.max_queue_offset("Orders", 0) == stored + 1
    killed = open_store(path_settings, disk.after_kill())
    assert killed.max_queue_offset("Orders", 0) == stored + 1
    assert killed.recovered.damages == [] and killed.recovered.set_aside is None


def test_a_failed_sync_ends_writing_for_good(
    open_store: OpenStore, disk: MemoryDisk, path_settings: StoreSettings
) -> None:
    store = open_store(path_settings, run_soon=later)
    store.append([new_message()])
    disk.fail_sync = True
    with pytest.raises(StoreNotWritable, match="sync failed"):
        store.wait_flushed().result(60)
    disk.fail_sync = False
    with pytest.raises(StoreNotWritable, match="sync failed"):
        store.append([new_message()])
    assert store.flushed_offset == 0


def test_a_killed_process_loses_only_what_waits_in_a_buffer(
    open_store: OpenStore, disk: MemoryDisk, path_settings: StoreSettings
) -> None:
    store = open_store(replace(path_settings, commit_interval_commit_log=1_000_000), run_soon=later)
    store.append([new_message()] * 3)
    killed = open_store(path_settings, disk.after_kill())
    assert killed.max_queue_offset("Orders", 0) == (0 if path_settings is POOL else 3)
    assert killed.written_offset == store.committed_offset


def test_what_is_written_through_the_channel_is_in_the_file(disk: MemoryDisk) -> None:
    chain = FileChain(OpenFiles(disk, writable=True), ROOT / "commitlog", 8_192, "size")
    chain.extend()
    path = WriteChannel(chain)
    path.write(10, b"hello")
    assert chain.read(10, 5) == b"hello"
    path.close()


def test_the_file_that_is_written_to_is_held_until_the_next_one_is(disk: MemoryDisk) -> None:
    files = OpenFiles(disk, writable=True, capacity=1)
    chain = FileChain(files, ROOT / "commitlog", 8_192, "size")
    chain.extend()
    path = WriteChannel(chain)
    path.write(0, b"a")
    first = chain.file(0)
    chain.extend()
    path.write(1, b"b")
    assert chain.file(0) is first
    path.write(8_192, b"c")
    assert (chain.read(0, 2), chain.read(8_192, 1)) == (b"ab", b"c")
    path.close()
    path.write(8_193, b"d")
    assert chain.read(8_192, 2) == b"cd"
    path.close()
