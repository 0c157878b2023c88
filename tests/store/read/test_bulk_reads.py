"""Many reads answered at once are those of ``Readings.get``, as far as they are usual."""

from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from tests.store.conftest import new_message

from cometmq import kernels
from cometmq.format.checksum import Crc
from cometmq.kernels import plain
from cometmq.kernels.pulls.plain import PlainPulls
from cometmq.kernels.pulls.rows import (
    ANSWERS_SIZE_MAX,
    NO_NUMBER,
    QUEUE_NUMBER,
    PullRows,
    PullState,
    ReadOutcome,
    constants_of,
)
from cometmq.kernels.text.key_table import KeyTable
from cometmq.store.read.bulk_reads import FILTERS_MAX, Answered, BulkReads
from cometmq.store.read.get_result import GetStatus
from cometmq.store.settings import FlushDiskType, StoreSettings
from cometmq.store.store import MessageStore
from cometmq.testing.memory_disk import MemoryDisk
from cometmq.wire.connection import FrameReader
from cometmq.wire.template import NumbersTemplate

CONSTANTS = constants_of(NumbersTemplate("FOUND", ("a", "b", "c", "d")))
FILE_SIZE = 1 << 16


@pytest.fixture
def disk() -> MemoryDisk:
    return MemoryDisk()


@pytest.fixture(params=["plain", "compiled"])
def store(
    request: pytest.FixtureRequest, disk: MemoryDisk, monkeypatch: pytest.MonkeyPatch
) -> Iterator[MessageStore]:
    kernels.load()
    if request.param == "plain":
        monkeypatch.setattr(kernels.loading, "ops", plain)
    settings = StoreSettings(mapped_file_size_commit_log=FILE_SIZE, max_message_size=FILE_SIZE)
    with MessageStore.open(Path("/disk/store"), settings, files=disk) as opened:
        yield opened


def fill(store: MessageStore, count: int, size: int = 100) -> None:
    for n in range(count):
        store.append([new_message("T", n % 2, body=bytes([n % 256]) * size)])


def add(
    reads: BulkReads,
    queue_id: int,
    offset: int,
    count: int = 32,
    number: int = 0,
    *,
    size: int = 1 << 30,
    codes: frozenset[int] | None = None,
) -> PullState:
    return reads.add(("T", queue_id), offset, count, size, codes, number, 0)


def add_known(reads: BulkReads, *pulls: tuple[int, int, int], count: int = 32) -> int:
    """Add pulls, each by queue's number, offset and opaque number; tell how many were added."""
    into, table = PullRows(), KeyTable()
    rows = into.array[: len(pulls)]
    table.rows[: len(pulls), QUEUE_NUMBER] = [number for number, *_ in pulls]
    rows["queue_offset"] = [offset for _, offset, _ in pulls]
    rows["opaque"] = [opaque for _, _, opaque in pulls]
    rows["target"] = range(len(pulls))
    rows["max_count"], rows["max_bytes"] = count, 1 << 18
    return reads.add_known(into, 0, len(pulls), table)


def answer(reads: BulkReads) -> list[Answered]:
    return reads.answer(CONSTANTS)


def test_reads_of_many_files_are_answered_together(store: MessageStore) -> None:
    fill(store, 3000)
    reads = store.readings.bulk
    asked = [(n % 2, (n * 377) % 1500, 1 + n % 32) for n in range(60)]
    for number, (queue_id, offset, count) in enumerate(asked):
        assert add(reads, queue_id, offset, count, number) == PullState.ASKED
    answered = answer(reads)
    frames = FrameReader().receive_data(reads.answers(0, max(one.end for one in answered)))
    found = {frame.opaque: frame for frame in frames}
    usual = 0
    for number, (ask, one) in enumerate(zip(asked, answered, strict=True)):
        result = store.get("T", *ask)
        if one.outcome == ReadOutcome.LEFT:
            assert number not in found
            continue
        usual += 1
        assert one[1:5] == (len(result.records), result.next_offset, result.min_offset, result.max_offset)
        assert found[number].body == b"".join(result.runs)
    assert usual > 40, "few lie in two files"


def test_where_nothing_is_that_is_said_at_once(store: MessageStore) -> None:
    fill(store, 2)
    store.delete_topic("T")
    store.append([new_message("T", 0)])
    store.readings.bulk._queues.find_or_create("T", 1)  # it never had a message
    reads = store.readings.bulk
    assert answer(reads) == []
    for queue_id, offset in [(0, 1), (0, 2), (0, -1), (1, 0), (1, 1), (7, 0)]:
        status = store.get("T", queue_id, offset).status
        assert add(reads, queue_id, offset) == (
            PullState.AT_END if status is GetStatus.OFFSET_OVERFLOW_ONE else PullState.OUTSIDE
        )
    assert answer(reads) == []


@pytest.mark.parametrize(
    ("settings", "is_sure"),
    [
        (StoreSettings(), True),
        (StoreSettings(flush_disk_type=FlushDiskType.SYNC_FLUSH), False),
        (StoreSettings(transient_store_pool_enable=True, transient_store_pool_size=1), False),
    ],
    ids=["async", "sync", "pool"],
)
def test_it_tells_where_queues_end_if_all_that_is_appended_can_be_read(
    disk: MemoryDisk, settings: StoreSettings, *, is_sure: bool
) -> None:
    with MessageStore.open(Path("/disk/store"), settings, files=disk) as store:
        fill(store, 5)
        reads = store.readings.bulk
        numbers = [reads.number_of("T", queue_id) for queue_id in range(3)]
        assert numbers[2] == NO_NUMBER
        at_ends = [(number, end, 0) for number, end in zip(numbers, (3, 2, 1), strict=True)]
        assert add_known(reads, *at_ends) == (2 if is_sure else 0)
        store.delete_topic("T")
        assert not add_known(reads, *at_ends), "nothing is held at the end of a queue that is gone"


def test_what_is_known_is_answered_as_what_is_read(store: MessageStore) -> None:
    fill(store, 1000)
    store.tick()
    reads = store.readings.bulk
    number = reads.number_of("T", 0)
    assert not add_known(reads, (number, 40, 7))
    assert add(reads, 0, 40) == PullState.ASKED
    for offset in (40, 60, 130, 212):
        reads.begin()
        assert add_known(reads, (number, offset, 7)) == 1
        (known,), frames = answer(reads), reads.answers(0, 1 << 19)
        reads.begin()
        assert add(reads, 0, offset, number=7) == PullState.ASKED
        assert answer(reads) == [known] and known.record_count
        assert reads.answers(0, known.end) == frames[: known.end]
    assert not add_known(reads, (number, 213, 7)), "only those up to 244 were read"


def test_known_entries_do_not_outlive_their_queue_or_its_first_message(store: MessageStore) -> None:
    fill(store, 1000)
    reads = store.readings.bulk
    queue = reads._queues.find_or_create("T", 0)
    changes: list[Callable[[], object]] = [
        lambda: queue.correct_min_offset(queue.entry(100).physical_offset),
        lambda: queue.truncate(queue.entry(400).physical_offset),
        lambda: store.delete_topic("T"),
    ]
    for change in changes:
        assert add(reads, 0, 200) == PullState.ASKED and add_known(reads, (queue.number, 200, 7)) == 1
        change()
        assert not add_known(reads, (queue.number, 200, 7))


def test_there_is_room_for_all_that_is_added(store: MessageStore) -> None:
    fill(store, 3000)
    reads = store.readings.bulk
    for number in range(1_000):
        assert add(reads, number % 2, number, 32, number) == PullState.ASKED
    found: list[int] = []
    while answered := answer(reads):
        frames = FrameReader().receive_data(reads.answers(0, max(one.end for one in answered)))
        assert all(len(frame.body) for frame in frames)
        found += [frame.opaque for frame in frames]
    assert len(found) > 900 and found == sorted(found), "a few lie in two files"


def test_what_does_not_fit_is_answered_by_the_next_calls(store: MessageStore) -> None:
    fill(store, 80, 30_000)
    reads = store.readings.bulk
    for number in range(40):
        add(reads, 0, number, 1, number)
    found: list[int] = []
    while answered := answer(reads):
        assert len(answered) < 40 and answered[-1].end <= ANSWERS_SIZE_MAX
        frames = FrameReader().receive_data(reads.answers(0, answered[-1].end))
        assert len(frames) == len(answered)
        found += [frame.opaque for frame in frames]
    assert found == list(range(40))
    reads.begin()
    add(reads, 0, 7, 1)
    assert [one.record_count for one in answer(reads)] == [1]


def test_a_read_that_no_room_is_large_enough_for_is_not_even_tried(
    disk: MemoryDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels.load()
    settings = StoreSettings(
        mapped_file_size_commit_log=1 << 21,
        max_transfer_count_on_message_in_memory=4_096,
        max_transfer_bytes_on_message_in_memory=1 << 20,
    )
    with MessageStore.open(Path("/disk/store"), settings, files=disk) as store:
        fill(store, 40, 30_000)
        reads = store.readings.bulk
        calls = MagicMock(wraps=kernels.loading.ops.pulls)
        monkeypatch.setattr(kernels.loading, "ops", MagicMock(wraps=kernels.loading.ops, pulls=calls))
        reads.begin()
        add(reads, 0, 0, 20, size=1 << 20)
        (one,) = answer(reads)
        assert one.outcome == ReadOutcome.LEFT and not calls.answer.called
        reads.begin()
        add(reads, 0, 0, 10, size=1 << 20)
        (one,) = answer(reads)
        assert one.record_count == 10 and calls.answer.called


def test_what_is_not_in_memory_is_left_to_readings(store: MessageStore, disk: MemoryDisk) -> None:
    fill(store, 8)
    reads = store.readings.bulk
    disk.cold = True
    add(reads, 0, 0)
    add(reads, 1, 2)
    assert [one.outcome for one in answer(reads)] == [ReadOutcome.LEFT, ReadOutcome.LEFT]


def test_the_hashes_of_many_filters_do_not_stay(store: MessageStore) -> None:
    fill(store, 4)
    reads = store.readings.bulk
    for code in range(FILTERS_MAX):
        add(reads, 0, 0, codes=frozenset((code,)))
    assert [one.outcome for one in answer(reads)][:2] == [ReadOutcome.FOUND, ReadOutcome.NONE_WANTED]
    assert len(reads._asks.codes) == FILTERS_MAX
    reads.begin()
    assert not len(reads._asks.codes)
    add(reads, 0, 0, codes=frozenset((0,)))
    assert answer(reads)[0].outcome == ReadOutcome.FOUND


def test_a_log_that_is_checked_otherwise_has_the_plain_operations(store: MessageStore) -> None:
    store._log.crc = Crc.RECORD
    reads = BulkReads(store._log, store._queues, store.readings.bulk._limits, reads_later=False)
    assert isinstance(reads._ops, PlainPulls)
    fill(store, 2)
    add(reads, 0, 0)
    assert answer(reads)[0].outcome == ReadOutcome.LEFT, "it lacks the property CRC"
