"""Files that have expired go, from the front, and nothing else does, whatever happens between two of them."""

import os
import time
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.store.conftest import ROOT, SMALL, OpenStore, new_message, settle

from cometmq.errors import StoreNotWritable
from cometmq.format import layout
from cometmq.format.record import decode
from cometmq.io.clock import ManualClock
from cometmq.store import FlushDiskType, GetStatus, MessageStore
from cometmq.store.upkeep.retention import ASKED_ROUNDS, FIRST_ROUND_MS, HOUR_MS, Removal
from cometmq.store.verify import State, verify
from cometmq.testing.memory_disk import MemoryDisk
from cometmq.testing.recorded_disk import RecordedDisk

NOON = 12
RESERVED_MS = 72 * HOUR_MS
MESSAGE = bytes(900)
PER_FILE = 8
"""So many messages of ``MESSAGE``, or 7, go into a CommitLog file of 8 KiB."""
VOUCHED = 71
LOG, QUEUES, INDEX = layout.commitlog_dir(ROOT), layout.consume_queues_dir(ROOT), layout.index_dir(ROOT)


def at_hour(hour: int) -> ManualClock:
    """A clock that says it is this hour of the day, here."""
    clock = ManualClock()
    while time.localtime(clock.now_ms() / 1000).tm_hour != hour:
        clock.advance(HOUR_MS)
    return clock


@pytest.fixture
def clock(disk: MemoryDisk) -> ManualClock:
    """Noon: not the hour at which files are removed."""
    clock = at_hour(NOON)
    disk.now_ms = clock.now_ms
    return clock


def fill(store: MessageStore, count: int, queue_id: int = 0) -> None:
    """Append messages one by one: numbered bodies, and a key each."""
    for n in range(count):
        store.append([new_message(queue_id=queue_id, body=b"%06d" % n + MESSAGE, keys=f"k{n}")])


def numbers(store: MessageStore, queue_id: int = 0) -> list[int]:
    """Read a queue from its beginning as a consumer does; give the numbers in the bodies."""
    found, offset = [], 0
    while True:
        result = store.get("Orders", queue_id, offset)
        found += [int(decode(record).body[:6]) for record in result.records]
        if result.status in (GetStatus.OFFSET_OVERFLOW_ONE, GetStatus.NO_MATCHED_LOGIC_QUEUE):
            return found
        assert result.next_offset > offset or result.status is GetStatus.OFFSET_TOO_SMALL
        offset = result.next_offset


def files(disk: MemoryDisk, directory: Path = LOG) -> list[str]:
    return disk.names(directory)


@pytest.mark.parametrize("way", [{}, {"write_without_mmap": True}, {"transient_store_pool_enable": True}])
def test_files_go_when_they_are_old_and_it_is_the_hour(
    open_store: OpenStore, disk: MemoryDisk, clock: ManualClock, way: dict[str, bool]
) -> None:
    store = open_store(replace(SMALL, **way))
    fill(store, 30)
    settle(store, clock)
    names = files(disk)
    clock.advance(RESERVED_MS)
    assert store.retention.run() == []  # noon
    clock.advance((4 - NOON) % 24 * HOUR_MS)
    removed = store.retention.run()
    assert removed[: len(names) - 1] == [LOG / name for name in names[:-1]]
    assert files(disk) == names[-1:]
    assert store.min_offset == int(names[-1])
    first = store.min_queue_offset("Orders", 0)
    assert first > 0 and numbers(store) == list(range(first, 30))
    result = store.get("Orders", 0, 3)
    assert (result.status, result.next_offset, result.min_offset) == (
        GetStatus.OFFSET_TOO_SMALL,
        first,
        first,
    )
    assert store.retention.run() == []
    fill(store, 3)
    assert numbers(store) == [*range(first, 30), 0, 1, 2]


def test_files_go_by_their_own_age(open_store: OpenStore, disk: MemoryDisk, clock: ManualClock) -> None:
    store = open_store(replace(SMALL, delete_when=f"04;{NOON}"))
    fill(store, 20)
    clock.advance(RESERVED_MS - 2 * 24 * HOUR_MS)
    fill(store, 20)
    settle(store, clock)
    names = files(disk)
    clock.advance(2 * 24 * HOUR_MS - FIRST_ROUND_MS - 1)
    assert store.retention.run() == []
    clock.advance(1)
    assert [path.name for path in store.retention.run() if path.parent == LOG] == names[:2]


def test_who_asks_gets_it_at_any_hour_for_some_rounds(open_store: OpenStore, clock: ManualClock) -> None:
    store = open_store()
    fill(store, 10)
    settle(store, clock)
    store.retention.ask()
    assert store.retention.run() == []  # not old enough
    clock.advance(RESERVED_MS)
    assert store.retention.run() != []
    for _ in range(ASKED_ROUNDS - 2):
        store.retention.run()
    fill(store, 10)
    settle(store, clock)
    clock.advance(RESERVED_MS)
    store.retention.ask()
    assert store.retention.run() != []


def test_files_that_have_not_expired_go_when_the_disk_needs_it(
    open_store: OpenStore, disk: MemoryDisk, clock: ManualClock
) -> None:
    store = open_store()
    fill(store, 50)
    settle(store, clock)
    names, used = files(disk), disk.usage(ROOT).used
    disk.space_bytes = used * 100 // 78
    assert store.retention.run() == []  # over 75 %: nothing has expired
    disk.space_bytes = used * 100 // 88
    assert [path.name for path in store.retention.run() if path.parent == LOG] == names[:-1]  # over 85 %


def test_expired_files_need_no_hour_once_the_disk_fills_up(
    open_store: OpenStore, disk: MemoryDisk, clock: ManualClock
) -> None:
    store = open_store()
    fill(store, 50)
    settle(store, clock)
    clock.advance(RESERVED_MS)
    used = disk.usage(ROOT).used
    disk.space_bytes = used * 100 // 74
    assert store.retention.run() == []
    disk.space_bytes = used * 100 // 78
    assert store.retention.run() != []


def test_no_messages_are_taken_while_the_disk_is_full_and_again_below(
    open_store: OpenStore, disk: MemoryDisk, clock: ManualClock
) -> None:
    settings = replace(SMALL, clean_file_forcibly_enable=False)
    store = open_store(settings)
    fill(store, 30)
    settle(store, clock)
    used = disk.usage(ROOT).used
    disk.space_bytes = used * 100 // 92
    assert store.retention.run() == []  # younger files stay: cleanFileForciblyEnable
    with pytest.raises(StoreNotWritable, match=r"disk 9\d % full under .*free some space; sending goes on"):
        fill(store, 1)
    assert len(numbers(store)) == 30  # it can be read
    disk.space_bytes = used * 100 // 88
    store.retention.run()
    with pytest.raises(StoreNotWritable):
        fill(store, 1)
    disk.space_bytes = used * 100 // 80
    store.retention.run()
    fill(store, 1)


def test_a_round_removes_a_batch_at_most(open_store: OpenStore, disk: MemoryDisk, clock: ManualClock) -> None:
    store = open_store()
    fill(store, 12 * PER_FILE)
    settle(store, clock)
    clock.advance(RESERVED_MS)
    store.retention.ask()
    count = len(files(disk))
    assert count > 11
    assert [path.parent for path in store.retention.run()].count(LOG) == 10
    assert [path.parent for path in store.retention.run()].count(LOG) == count - 11
    assert len(files(disk)) == 1


def test_what_points_to_removed_messages_goes_with_them(
    open_store: OpenStore, disk: MemoryDisk, clock: ManualClock
) -> None:
    store = open_store()
    fill(store, 60, queue_id=1)
    fill(store, 60)
    settle(store, clock)
    before = files(disk, INDEX)
    assert len(files(disk, QUEUES / "Orders" / "1")) == 3
    assert len(before) > 2
    clock.advance(RESERVED_MS)
    store.retention.ask()
    while store.retention.run():
        pass
    assert files(disk, QUEUES / "Orders" / "1") == [layout.offset_name(800)]
    assert store.min_queue_offset("Orders", 1) == store.max_queue_offset("Orders", 1) == 60
    assert files(disk, INDEX) == before[-len(files(disk, INDEX)) :]
    assert len(files(disk, INDEX)) <= 2
    assert store.query("Orders", "k0").records == []
    assert len(store.query("Orders", "k59").records) == 1
    store.append([new_message(queue_id=1, body=b"000007")])
    assert numbers(store, 1) == [7]
    assert store.min_queue_offset("Orders", 1) == 60


def test_what_was_not_vouched_for_stays(open_store: OpenStore, clock: ManualClock) -> None:
    store = open_store()
    fill(store, 30)
    store.wait_flushed().result()
    clock.advance(RESERVED_MS)
    store.retention.ask()
    assert store.retention.run() == []  # the queue's entries are in memory only
    settle(store, clock)
    assert store.retention.run() != []


def test_a_reader_between_two_steps_is_told_and_never_given_anything_else(
    open_store: OpenStore, clock: ManualClock
) -> None:
    store = open_store()
    fill(store, 60)
    settle(store, clock)
    clock.advance(RESERVED_MS)
    store.retention.ask()
    seen = set()
    kept = store.get("Orders", 0, 0).records
    for removal in store.retention.round():
        for offset in range(60):
            result = store.get("Orders", 0, offset, max_count=1)
            seen.add(result.status)
            if result.records:  # what is removed is passed over
                (record,) = map(decode, result.records)
                assert record.queue_offset == offset or record.physical_offset == store.min_offset
                assert int(record.body[:6]) == record.queue_offset
        store.retention.remove(removal.paths)
    assert seen == {GetStatus.FOUND, GetStatus.MESSAGE_WAS_REMOVING, GetStatus.OFFSET_TOO_SMALL}
    assert [int(decode(record).body[:6]) for record in kept][:3] == [0, 1, 2]


def test_a_reader_in_a_thread_keeps_what_it_holds_and_no_file_longer(tmp_path: Path) -> None:
    """On a real disk, where an open file takes its space until the last one closes it."""
    clock = at_hour(NOON)
    clock.set_wall(2**42)  # files of a real disk are as old as the machine's clock says
    with MessageStore.open(tmp_path, replace(SMALL, file_reserved_time=0), clock=clock) as store:
        fill(store, 60)
        settle(store, clock)
        store.retention.ask()
        chain, opened = store._log.chain, store._parts.files
        path = chain.path(0)
        with chain.held(0) as file:
            before = bytes(file.view())
            for removal in store.retention.round():
                with opened.held(removal.paths[0]) if removal.paths[0].exists() else nullcontext():
                    store.retention.remove(removal.paths)
            assert not path.exists()
            assert bytes(file.view()) == before and file.read(0, 100) == before[:100]
        assert [name for name in open_files() if name.startswith(str(tmp_path)) and "(deleted)" in name] == []


def open_files() -> Iterator[str]:
    """Yield what this process has open."""
    for number in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # that was the listing's own
            yield os.readlink(f"/proc/self/fd/{number}")


def test_what_could_not_be_removed_is_removed_by_the_next_round(
    open_store: OpenStore, disk: MemoryDisk, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store()
    fill(store, 30)
    settle(store, clock)
    clock.advance(RESERVED_MS)
    store.retention.ask()
    names = files(disk)
    with monkeypatch.context() as patch:
        patch.setattr(disk, "remove", _refuse)
        assert store.retention.run() == []
    assert files(disk) == names
    assert store.min_offset == int(names[1])
    assert [path.name for path in store.retention.run() if path.parent == LOG] == names[:-1]
    assert files(disk) == names[-1:]


def _refuse(path: Path) -> None:
    raise PermissionError(1, "Operation not permitted", str(path))


def _keep(disk: MemoryDisk, path: Path, patch: pytest.MonkeyPatch) -> None:
    """Keep one file from being removed."""
    remove = disk.remove
    patch.setattr(disk, "remove", lambda one: _refuse(one) if one == path else remove(one))


@pytest.mark.parametrize("place", ["log", "queue"])
def test_a_file_that_the_disk_does_not_let_go_keeps_only_those_behind_it_and_is_told_once(
    open_store: OpenStore,
    disk: MemoryDisk,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    place: str,
) -> None:
    store = open_store()
    for queue_id in (0, 1):
        fill(store, 50, queue_id)
    settle(store, clock)
    clock.advance(RESERVED_MS)
    of_log, of_queue = files(disk), files(disk, QUEUES / "Orders" / "0")
    stuck = LOG / of_log[1] if place == "log" else QUEUES / "Orders" / "0" / of_queue[0]
    with monkeypatch.context() as patch:
        _keep(disk, stuck, patch)
        for _ in range(3):
            store.retention.ask()
            store.retention.run()
    assert files(disk) == (of_log[1:] if place == "log" else of_log[-1:])
    if place == "queue":
        assert files(disk, QUEUES / "Orders" / "0") == of_queue
        assert len(files(disk, QUEUES / "Orders" / "1")) == 1
    assert [line for line in caplog.messages if "tried again" in line] == [
        f"{stuck}: cannot be removed, and is tried again: Operation not permitted"
    ]
    store.retention.ask()
    assert stuck in store.retention.run()
    assert files(disk) == of_log[-1:]
    assert [len(files(disk, QUEUES / "Orders" / name)) for name in ("0", "1")] == [1, 1]


def test_a_topic_whose_files_cannot_be_moved_takes_no_messages_until_a_round_can_move_them(
    open_store: OpenStore, disk: MemoryDisk, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store()
    fill(store, 60)
    settle(store, clock)

    def refuse(old: Path, *_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted", str(old))

    with monkeypatch.context() as patch:
        patch.setattr(disk, "rename", refuse)
        store.delete_topic("Orders")
        store.retention.run()
        assert store.queues() == []
        with pytest.raises(
            StoreNotWritable, match=f"^{QUEUES / 'Orders'}: is left of the deleted queue Orders-0"
        ):
            fill(store, 1)
    store.retention.run()
    assert not disk.exists(QUEUES / "Orders")
    fill(store, 2)
    assert numbers(store) == [0, 1]
    assert store.not_writable is None


def test_a_round_that_takes_long_leaves_the_other_queues_to_the_next(
    open_store: OpenStore, disk: MemoryDisk, clock: ManualClock
) -> None:
    store = open_store()
    for queue_id in range(10):
        fill(store, 25, queue_id)
    settle(store, clock)
    clock.advance(RESERVED_MS)
    while len(files(disk)) > 1:
        store.retention.ask()
        rounds = 0
        for removal in store.retention.round():
            store.retention.remove(removal.paths)
            clock.advance(SMALL.clean_resource_interval // 4)
            rounds += 1
        assert rounds < 20
    while any(len(files(disk, QUEUES / "Orders" / str(queue_id))) > 1 for queue_id in range(10)):
        before = sum(len(files(disk, QUEUES / "Orders" / str(queue_id))) for queue_id in range(10))
        for removal in store.retention.round():
            store.retention.remove(removal.paths)
            clock.advance(SMALL.clean_resource_interval // 4)
        after = sum(len(files(disk, QUEUES / "Orders" / str(queue_id))) for queue_id in range(10))
        assert before - 4 <= after < before
    first = store.min_queue_offset("Orders", 9)
    assert numbers(store, 9) == list(range(first, 25))


def test_a_store_begins_its_rounds_after_a_while(open_store: OpenStore, clock: ManualClock) -> None:
    store = open_store()
    assert not store.retention.is_due()
    clock.advance(FIRST_ROUND_MS)
    assert store.retention.is_due()
    assert store.retention.run() == []
    assert not store.retention.is_due()
    clock.advance(SMALL.clean_resource_interval)
    assert store.retention.is_due()


@pytest.mark.parametrize("flush", FlushDiskType)
def test_a_topic_deleted_between_two_steps_is_passed_over(
    open_store: OpenStore, disk: MemoryDisk, clock: ManualClock, flush: FlushDiskType
) -> None:
    store = open_store(replace(SMALL, flush_disk_type=flush))
    fill(store, 60)
    store.append([new_message("Others", body=b"000001")])
    settle(store, clock)
    clock.advance(RESERVED_MS)
    store.retention.ask()
    steps = store.retention.round()
    for removal in steps:
        store.retention.remove(removal.paths)
        if len(files(disk)) == 1:
            break
    store.delete_topic("Orders")
    for removal in steps:
        store.retention.remove(removal.paths)
    assert not disk.exists(QUEUES / "Orders")
    assert store.max_queue_offset("Others", 0) == 1


def _until_a_queue_loses_files(store: MessageStore, clock: ManualClock) -> tuple[Iterator[Removal], Removal]:
    """Begin a round; give it, and its step that removes a queue's files, which is still to be done."""
    clock.advance(RESERVED_MS)
    store.retention.ask()
    steps = store.retention.round()
    for removal in steps:
        if any(QUEUES in path.parents for path in removal.paths):
            return steps, removal
        store.retention.remove(removal.paths)
    raise AssertionError("no queue lost a file")


def test_a_topic_is_deleted_with_expired_files_that_are_not_removed_yet(
    open_store: OpenStore, disk: MemoryDisk, clock: ManualClock
) -> None:
    store = open_store()
    for queue_id in range(2):
        fill(store, 60, queue_id)
    settle(store, clock)
    _, removal = _until_a_queue_loses_files(store, clock)
    store.delete_topic("Orders")
    assert store.queues() == []
    assert not disk.exists(QUEUES / "Orders")
    store.retention.remove(removal.paths)


def test_a_topic_made_again_keeps_its_files_though_those_before_could_not_be_removed_at_once(
    open_store: OpenStore, clock: ManualClock
) -> None:
    store = open_store()
    fill(store, 90)
    settle(store, clock)
    _, removal = _until_a_queue_loses_files(store, clock)  # and removing them fails
    store.delete_topic("Orders")
    fill(store, 60)
    settle(store, clock)
    store.retention.run()
    assert removal.paths
    assert numbers(store) == list(range(60))
    fill(store, 1)
    settle(store, clock)
    assert store.not_writable is None


def _images(
    disk: RecordedDisk, clock: ManualClock, late: int, chance: Random
) -> Iterator[tuple[str, MemoryDisk]]:
    """Run a round with ``late`` messages that came after the last thorough round; cut it off everywhere."""
    with MessageStore.open(ROOT, SMALL, files=disk, clock=clock) as store:
        for n in range(VOUCHED - 1):
            store.append([new_message(queue_id=n % 2, body=b"%06d" % n + MESSAGE, keys=f"k{n}")])
        store.append([new_message(queue_id=2, body=b"%06d" % (VOUCHED - 1))])
        settle(store, clock)
        for n in range(VOUCHED, VOUCHED + late):
            store.append([new_message(queue_id=n % 2, body=b"%06d" % n + MESSAGE, keys=f"k{n}")])
        store.wait_flushed().result()
        clock.advance(RESERVED_MS)
        store.retention.ask()
        begin = len(disk.operations)
        store.retention.run()
        moments = range(begin, len(disk.operations) + 1)
        killed = disk.after_kill()
    for moment, lost, unlucky in zip(
        moments, killed.states(moments, chance), killed.states(moments), strict=True
    ):
        yield f"after {moment - begin} of {len(moments)} operations", lost
        yield f"after {moment - begin} of {len(moments)} operations, nothing else", unlucky
    yield "killed", killed


@settings(max_examples=2, deadline=None)
@given(late=st.integers(0, 40), seed=st.integers(0, 2**32))
def test_a_round_cut_off_anywhere_leaves_a_store_that_begins_somewhere_and_misses_nothing_behind(
    late: int, seed: int
) -> None:
    clock, disk = at_hour(NOON), RecordedDisk()
    disk.now_ms = clock.now_ms
    sent: dict[int, list[int]] = {
        queue_id: [n for n in range(VOUCHED + late) if (2 if n == VOUCHED - 1 else n % 2) == queue_id]
        for queue_id in range(3)
    }
    begun = set()
    for when, image in _images(disk, clock, late, Random(seed)):
        with MessageStore.open(ROOT, SMALL, files=image, clock=clock) as store:
            assert (store.recovered.gaps, store.recovered.damages) == ([], []), when
            for queue_id, bodies in sent.items():
                assert store.max_queue_offset("Orders", queue_id) == len(bodies), when
                first = store.min_queue_offset("Orders", queue_id)
                assert numbers(store, queue_id) == bodies[first:], when
            for n in range(VOUCHED, VOUCHED + late):
                assert len(store.query("Orders", f"k{n}").records) == 1, when
            begun.add(store.min_offset)
        verified = verify(ROOT, SMALL, layer=image)
        assert (verified.state, verified.findings) == (State.SOUND, []), when
    assert len(begun) > 5


@pytest.mark.parametrize("step_ms", [365 * 24 * HOUR_MS, -48 * HOUR_MS])
def test_however_the_wall_clock_is_set_a_file_goes_when_its_time_has_passed_and_no_earlier(
    open_store: OpenStore, disk: MemoryDisk, clock: ManualClock, step_ms: int
) -> None:
    store = open_store(replace(SMALL, delete_when=";".join(map(str, range(24)))))
    fill(store, 3 * PER_FILE)
    settle(store, clock)
    there = files(disk)
    clock.advance(RESERVED_MS // 2)
    clock.set_wall(clock.now_ms() + step_ms)
    fill(store, 1)
    clock.advance(RESERVED_MS // 4)
    store.retention.run()
    assert files(disk)[: len(there)] == there
    clock.advance(RESERVED_MS // 4)
    store.retention.run()
    assert len(set(files(disk)) & set(there)) <= 1


def test_only_the_file_that_is_written_to_is_kept_in_any_case(open_store: OpenStore) -> None:
    store = open_store()
    fill(store, 2 * PER_FILE)
    last = int(max(files_of(store)))
    assert [store.retention.keeps(offset) for offset in (0, last - 1, last, last + 1)] == [
        False,
        False,
        True,
        True,
    ]


def files_of(store: MessageStore) -> list[str]:
    return [f"{start:020}" for start in store._log.chain.starts]


ANY_HOUR = replace(SMALL, delete_when=";".join(map(str, range(24))))


def test_where_the_clock_of_a_start_says_that_all_is_too_old_nothing_goes_for_an_hour(
    open_store: OpenStore, disk: MemoryDisk, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(ANY_HOUR)
    fill(store, 3 * PER_FILE)
    store.close()
    there = files(disk)
    right = clock.now_ms()
    clock.set_wall(right + 365 * 24 * HOUR_MS)
    store = open_store(ANY_HOUR)
    for _ in range(3):
        store.retention.run()
    assert files(disk) == there
    assert caplog.text.count("check that the clock is right") == 1
    clock.set_wall(right)
    clock.advance(HOUR_MS)
    store.retention.run()
    assert files(disk) == there, "the clock was put right in time"
    clock.advance(RESERVED_MS)
    store.retention.run()
    assert len(files(disk)) < len(there)


def test_a_store_that_nobody_wrote_to_for_long_is_cleaned_after_that_hour_or_when_somebody_asks(
    open_store: OpenStore, disk: MemoryDisk, clock: ManualClock
) -> None:
    store = open_store(ANY_HOUR)
    fill(store, 5 * PER_FILE)
    store.close()
    clock.advance(2 * RESERVED_MS)
    store = open_store(replace(ANY_HOUR, delete_file_batch_max=1))
    there = files(disk)
    store.retention.run()
    assert files(disk) == there
    store.retention.ask()
    store.retention.run()
    assert len(files(disk)) == len(there) - 1
    for _ in range(ASKED_ROUNDS):
        store.retention.run()
    clock.advance(HOUR_MS)
    store.retention.run()
    assert len(files(disk)) == 1
