"""Readings of a store that lies cold on the disk: the same answers, whatever changes meanwhile."""

import mmap
from collections.abc import Callable
from typing import TypeVar

import pytest
from msgspec.structs import replace
from tests.store.conftest import SMALL, OpenStore, new_message

from cometmq import kernels
from cometmq.format.java.java_hash import tags_code
from cometmq.format.record import decode
from cometmq.io.clock import ManualClock
from cometmq.message import Buffer
from cometmq.store import GetStatus, MessageStore
from cometmq.store.read import get
from cometmq.store.read.readings import TIME_MAX
from cometmq.store.reading import Reading, Run, run
from cometmq.testing.memory_disk import MemoryDisk, MemoryFile, MemoryMap

AnswerT = TypeVar("AnswerT")
COUNT = 90
ALL_TAGS = {tags_code(tag) for tag in "AB"}


@pytest.fixture
def store(open_store: OpenStore, disk: MemoryDisk, clock: ManualClock) -> MessageStore:
    """A store of many files, with all but the newest entries written back, on a cold disk."""
    store = open_store()
    for number in range(COUNT):
        store.append([new_message(body=b"%d" % number, keys=f"k{number} all", tags="AB"[number % 2])])
        clock.advance(1_000)
        if number == COUNT - 5:
            store._queues.write_back()
    store.wait_flushed().result()
    disk.cold = True
    return store


def fetched(reading: Reading[AnswerT], meanwhile: Callable[[], object] = lambda: None) -> tuple[AnswerT, int]:
    """Carry out a reading as a broker does; give its answer, and how often it had to wait."""
    going, waits, data = Run(reading), 0, None
    while not going.go_on(data):
        data = going.step.fetch()
        if not waits:
            meanwhile()
        waits += 1
    return going.answer, waits


def numbers(store: MessageStore, meanwhile: Callable[[], object] = lambda: None) -> list[int]:
    result, _ = fetched(store.readings.get("Orders", 0, 0), meanwhile)
    return [decode(record).queue_offset for record in result.records]


def remove_first(store: MessageStore, disk: MemoryDisk) -> None:
    """Remove the log's first file, as retention does."""
    chain = store._log.chain
    path = chain.path(chain.starts.pop(0))
    store._parts.files.forget(path)
    disk.remove(path)


def test_a_cold_store_gives_the_answers_of_a_warm_one(store: MessageStore, disk: MemoryDisk) -> None:
    readings = store.readings
    middle = store.get("Orders", 0, COUNT // 2)
    time = decode(middle.records[0]).store_time
    offset = decode(middle.records[0]).physical_offset
    asks: list[Callable[[], Reading[object]]] = [
        lambda: readings.get("Orders", 0, COUNT // 2),
        lambda: readings.get("Orders", 0, COUNT - 2),
        lambda: readings.get("Orders", 0, COUNT),
        lambda: readings.record(offset),
        lambda: readings.record(offset + 1),
        lambda: readings.query("Orders", "k17"),
        lambda: readings.query("Orders", "all", 64, 0, time),
        lambda: readings.offset_by_time("Orders", 0, time),
        lambda: readings.offset_by_time("Orders", 0, time, upper=True),
        lambda: readings.store_time_at("Orders", 0, COUNT // 2),
    ]
    for ask in asks:
        disk.cold = False
        warm = run(ask())
        disk.cold = True
        assert fetched(ask())[0] == warm


@pytest.mark.parametrize("queue_offset", [3, COUNT - 2, COUNT, COUNT + 1])
def test_what_need_not_be_waited_for_is_read_at_once(
    store: MessageStore, disk: MemoryDisk, queue_offset: int
) -> None:
    disk.cold = False
    found = store.readings.get_at_once("Orders", 0, queue_offset, 8, TIME_MAX, None)
    assert found == run(store.readings.get("Orders", 0, queue_offset, 8))


def test_what_must_be_waited_for_is_not_read_at_once(store: MessageStore) -> None:
    assert store.readings.get_at_once("Orders", 0, 3, 8, TIME_MAX, None) is None


def test_a_cold_pull_waits_once_for_entries_and_once_for_records_of_a_file(store: MessageStore) -> None:
    result, waits = fetched(store.readings.get("Orders", 0, 3, 8))
    assert (result.status, len(result.records), waits) == (GetStatus.FOUND, 8, 2)


class ThawingMap(MemoryMap):
    """A map of a file of which some pages are in memory."""

    def __init__(self, view: memoryview, warm: set[int]) -> None:
        super().__init__(view)
        self.resident[:] = bytes(page in warm for page in range(len(self.resident)))

    def ready(self, begin: int, end: int) -> Buffer | None:
        pages = self.resident[begin // mmap.PAGESIZE : -(-end // mmap.PAGESIZE)]
        return super().ready(begin, end) if all(pages) else None


def test_a_read_of_which_pages_are_missing_waits_for_them_and_then_goes_the_usual_way(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels.load()
    store = open_store(replace(SMALL, mapped_file_size_commit_log=1 << 20))
    store.append([new_message(body=bytes(1_000)) for _ in range(40)])
    expected = store.get("Orders", 0, 0, 32)
    warm: set[int] = set()
    read, reads = MemoryFile.read, []

    def thaw(file: MemoryFile, position: int, size: int) -> bytes:
        warm.update(range(position // mmap.PAGESIZE, -(-(position + size) // mmap.PAGESIZE)))
        reads.append(position)
        return read(file, position, size)

    monkeypatch.setattr(MemoryFile, "read", thaw)
    monkeypatch.setattr(MemoryFile, "read_ready", lambda *_: None)
    monkeypatch.setattr(MemoryFile, "mapped", lambda file: ThawingMap(file.view(), warm))
    with monkeypatch.context() as changed:
        changed.delattr(get, "_read_step_by_step")
        assert fetched(store.readings.get("Orders", 0, 0, 32)) == (expected, 1)
        assert len(reads) == 1 and fetched(store.readings.get("Orders", 0, 0, 32)) == (expected, 0)
    warm.remove(0)
    assert fetched(store.readings.get("Orders", 0, 0, 32)) == (expected, 1)


def test_what_is_known_without_a_file_waits_for_none(store: MessageStore) -> None:
    for offset in (COUNT, COUNT + 1, -1):
        assert fetched(store.readings.get("Orders", 0, offset))[1] == 0


def test_entries_that_are_written_back_meanwhile_are_given_once(store: MessageStore) -> None:
    expected = numbers(store)
    assert numbers(store, store._queues.write_back) == expected


def test_messages_that_come_meanwhile_are_for_the_next_pull(store: MessageStore) -> None:
    before = numbers(store)
    assert numbers(store, lambda: store.append([new_message()])) == before


def test_where_files_are_removed_meanwhile_reading_goes_on_in_the_next(
    store: MessageStore, disk: MemoryDisk
) -> None:
    second = store._log.chain.starts[1]
    result, _ = fetched(store.readings.get("Orders", 0, 0), lambda: remove_first(store, disk))
    at = 0
    while result.status is GetStatus.MESSAGE_WAS_REMOVING:
        assert result.next_offset > at
        at = result.next_offset
        result, _ = fetched(store.readings.get("Orders", 0, at))
    assert decode(result.records[0]).physical_offset == second


def test_a_file_that_is_removed_between_choice_and_read_gives_nothing_of_it(
    store: MessageStore, disk: MemoryDisk
) -> None:
    going = Run(store.readings.get("Orders", 0, 0, tags_codes=ALL_TAGS))
    assert not going.go_on()
    assert not going.go_on(going.step.fetch())  # the records are chosen
    remove_first(store, disk)
    assert going.go_on(going.step.fetch())
    result = going.answer
    assert (result.status, result.records, result.sizes) == (GetStatus.MESSAGE_WAS_REMOVING, [], [])
    assert 0 < result.next_offset < COUNT


def test_what_of_a_read_is_in_the_next_file_is_given_though_the_first_is_removed(
    store: MessageStore, disk: MemoryDisk
) -> None:
    second = store._log.chain.starts[1]
    queue = store._queues.find_or_create("Orders", 0)
    first = next(n for n in range(COUNT) if queue.entry(n).physical_offset >= second)
    going = Run(store.readings.get("Orders", 0, first - 2, 8))
    assert not going.go_on()
    assert not going.go_on(going.step.fetch())
    remove_first(store, disk)
    data = going.step.fetch()
    while not going.go_on(data):
        data = going.step.fetch()
    assert [decode(record).queue_offset for record in going.answer.records] == list(range(first, first + 8))
    assert going.answer.next_offset == first + 8


@pytest.mark.parametrize("cold", [False, True])
def test_a_read_ends_where_the_logs_file_ends_and_the_next_goes_on(
    store: MessageStore, disk: MemoryDisk, cold: bool
) -> None:
    kernels.load()
    disk.cold = cold
    begins, at, size = set(), 0, SMALL.mapped_file_size_commit_log
    while at < COUNT:
        result, _ = fetched(store.readings.get("Orders", 0, at, COUNT))
        places = [decode(record).physical_offset for record in result.records]
        assert result.next_offset == at + len(places)
        assert places[0] // size == places[-1] // size
        begins.add(places[0])
        at = result.next_offset
    assert begins.issuperset(store._log.chain.starts)


def test_a_topic_that_is_deleted_meanwhile_gives_its_messages_or_none(store: MessageStore) -> None:
    result, _ = fetched(store.readings.get("Orders", 0, 0), lambda: store.delete_topic("Orders"))
    assert result.status in (GetStatus.FOUND, GetStatus.OFFSET_FOUND_NULL)


def test_a_key_is_looked_for_while_others_are_indexed(store: MessageStore) -> None:
    def more() -> None:
        for number in range(COUNT, COUNT + 40):
            store.append([new_message(keys=f"k{number} all")])
        store._upkeep.catch_up()

    expected = run(store.readings.query("Orders", "all", 10)).records
    found, _ = fetched(store.readings.query("Orders", "all", 10), more)
    assert found.records == expected


def test_messages_can_be_judged_by_what_is_in_them(store: MessageStore) -> None:
    class Wanted:
        def __init__(self, divisor: int) -> None:
            self.divisor = divisor

        def work(self, _record: bytes) -> int:
            return 1

        def may_match(self, store_time: int, bitmap: bytes) -> bool:
            raise AssertionError(f"no entry is extended: {store_time} {bitmap!r}")

        def matches(self, record: bytes) -> bool:
            return int(decode(record).body) % self.divisor == 0

    found: list[int] = []
    at = 0
    while at < COUNT:
        result, _ = fetched(store.readings.get("Orders", 0, at, 4, record_filter=Wanted(3)))
        found += [int(decode(record).body) for record in result.records]
        assert len(result.records) <= 4
        assert result.next_offset > at
        at = result.next_offset
    assert found == list(range(0, COUNT, 3))
    none, _ = fetched(store.readings.get("Orders", 0, 1, record_filter=Wanted(1_000)))
    assert (none.status, none.next_offset) == (GetStatus.NO_MATCHED_MESSAGE, SMALL.queue_file_size // 20)


def test_threads_of_a_closed_store_are_gone(open_store: OpenStore, disk: MemoryDisk) -> None:
    store = open_store()
    store.append([new_message()])
    disk.cold = True
    reading = Run(store.readings.record(0))
    while not reading.go_on():
        store.fetch(reading.step).result()
    store.close()
    with pytest.raises(RuntimeError):
        store.fetch(reading.step)


def test_a_queue_is_young_while_its_first_message_counts_as_in_memory(store: MessageStore) -> None:
    readings = store.readings
    assert fetched(readings.is_young("Orders", 0))[0]
    assert run(readings.is_young("Orders", 9)) and run(readings.is_young("None", 0))
    readings._resident.limits = readings._resident.limits._replace(memory_bytes=0)
    assert not fetched(readings.is_young("Orders", 0))[0]
