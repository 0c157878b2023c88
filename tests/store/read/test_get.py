"""Reading a queue: every way in which a read can end, its limits, its filter."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.store.conftest import ROOT, SMALL, new_message

from cometmq.format import layout
from cometmq.format.java.java_hash import tags_code
from cometmq.format.queue_entry import FILLER, SIZE
from cometmq.format.record import decode
from cometmq.io.open_files import OpenFiles
from cometmq.store.files.spread import LogSpread
from cometmq.store.log.commit_log import CommitLog
from cometmq.store.queue.consume_queue import ConsumeQueue
from cometmq.store.queue.queues import Queues
from cometmq.store.read.get import FILTER_WORK_MAX, RecordFilter, get_messages
from cometmq.store.read.get_result import GetResult, GetStatus
from cometmq.store.read.limits import GetLimits
from cometmq.store.read.resident_reads import ResidentReads
from cometmq.store.reading import run
from cometmq.store.settings import StoreSettings
from cometmq.testing.memory_disk import MemoryDisk

PER_FILE = 100
RECORD_SIZE = 91 + len(b"Orders") + len(b"body")
ALL = 2**63 - 1


class Shelf:
    """A log and one queue, with nothing between them and the test."""

    def __init__(self, log_file_size: int = 1 << 16) -> None:
        files = OpenFiles(MemoryDisk(), writable=True)
        self.log = CommitLog(files, LogSpread((layout.commitlog_dir(ROOT),)), log_file_size)
        self.queue: ConsumeQueue = Queues(files, ROOT, PER_FILE * SIZE).find_or_create("Orders", 0)

    def add(self, count: int = 1, tags: str | None = None, body: bytes = b"body") -> None:
        for _ in range(count):
            (at,) = self.log.append([new_message(body=body)], [self.queue.max_offset], 1)
            self.queue.put(at.queue_offset, at.physical_offset, at.size, tags_code(tags))

    def add_lost(self, count: int = 1) -> None:
        for _ in range(count):
            self.queue.put(self.queue.max_offset, *FILLER)

    def get(
        self,
        queue_offset: int,
        *,
        count: int = 32,
        size: int = ALL,
        tags: set[str] | None = None,
        settings: StoreSettings = SMALL,
        record_filter: RecordFilter | None = None,
        limits: GetLimits | None = None,
    ) -> GetResult:
        codes = None if tags is None else {tags_code(tag) for tag in tags}
        return run(
            get_messages(
                ResidentReads(self.log, limits or GetLimits.of(settings)),
                self.queue,
                queue_offset,
                max_count=count,
                max_bytes=size,
                tags_codes=codes,
                record_filter=record_filter,
            )
        )


def offsets(result: GetResult) -> list[int]:
    return [decode(record).queue_offset for record in result.records]


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


def test_a_queue_that_never_was_has_no_messages() -> None:
    log = Shelf().log
    resident = ResidentReads(log, GetLimits.of(SMALL))
    result = run(get_messages(resident, None, 7, max_count=1, max_bytes=1, tags_codes=None))
    assert result == GetResult(GetStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0, [])


def test_an_empty_queue_begins_at_0(shelf: Shelf) -> None:
    assert shelf.get(7) == GetResult(GetStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0, [])


@pytest.mark.parametrize("queue_offset", [-1, 0, 2, -(2**63)])
def test_an_offset_before_the_first_message_is_sent_to_it(shelf: Shelf, queue_offset: int) -> None:
    shelf.add(5)
    shelf.queue.correct_min_offset(3 * RECORD_SIZE)
    assert shelf.get(queue_offset) == GetResult(GetStatus.OFFSET_TOO_SMALL, 3, 3, 5, [])


def test_the_end_of_the_queue_is_where_the_next_message_will_be(shelf: Shelf) -> None:
    shelf.add(5)
    assert shelf.get(5) == GetResult(GetStatus.OFFSET_OVERFLOW_ONE, 5, 0, 5, [])


@pytest.mark.parametrize("queue_offset", [6, 2**63 - 1])
def test_an_offset_behind_the_end_is_sent_to_the_end(shelf: Shelf, queue_offset: int) -> None:
    shelf.add(5)
    assert shelf.get(queue_offset) == GetResult(GetStatus.OFFSET_OVERFLOW_BADLY, 5, 0, 5, [])


def test_messages_are_given_from_the_offset_on(shelf: Shelf) -> None:
    shelf.add(5)
    result = shelf.get(2)
    assert (result.status, result.next_offset, result.min_offset, result.max_offset) == (
        GetStatus.FOUND,
        5,
        0,
        5,
    )
    assert offsets(result) == [2, 3, 4]


def test_entries_in_files_and_in_memory_are_read_as_one(shelf: Shelf) -> None:
    shelf.add(7)
    shelf.queue.write_back()
    shelf.add(4)
    assert offsets(shelf.get(5)) == list(range(5, 11))


@pytest.mark.parametrize("tags", [None, {"B"}])
def test_a_read_ends_where_the_queues_file_does(shelf: Shelf, tags: set[str] | None) -> None:
    shelf.add(PER_FILE + 5, tags="A")
    for _ in range(2):
        result = shelf.get(PER_FILE - 2, tags=tags)
        assert offsets(result) == ([] if tags else [PER_FILE - 2, PER_FILE - 1])
        assert result.next_offset == PER_FILE
        shelf.queue.write_back()


def test_lost_messages_are_passed_over(shelf: Shelf) -> None:
    shelf.add(2)
    shelf.add_lost(3)
    shelf.add(2)
    result = shelf.get(2)
    assert (result.status, result.next_offset, offsets(result)) == (GetStatus.FOUND, 7, [5, 6])


def test_where_only_lost_messages_are_the_next_offset_is_behind_them(shelf: Shelf) -> None:
    shelf.add(1)
    shelf.add_lost(3)
    result = shelf.get(1)
    assert (result.status, result.next_offset) == (GetStatus.MESSAGE_WAS_REMOVING, 4)


def test_a_read_ends_before_a_lost_message_and_goes_on_behind_it(shelf: Shelf) -> None:
    shelf.add(2)
    shelf.add_lost()
    shelf.add()
    first = shelf.get(0)
    assert offsets(first) == [0, 1]
    assert offsets(shelf.get(first.next_offset)) == [3]


def test_where_a_file_is_missing_the_next_one_is_named(shelf: Shelf) -> None:
    shelf.add(2 * PER_FILE + 5)
    shelf.queue.write_back()
    shelf.queue.chain.starts.pop(1)
    result = shelf.get(PER_FILE + 5)
    assert (result.status, result.next_offset) == (GetStatus.OFFSET_FOUND_NULL, 2 * PER_FILE)


@pytest.mark.parametrize(("count", "expected"), [(1, 1), (3, 3), (32, 32), (33, 32), (2**31 - 1, 32)])
def test_a_count_is_kept_up_to_the_settings_own(shelf: Shelf, count: int, expected: int) -> None:
    shelf.add(50)
    result = shelf.get(0, count=count)
    assert (len(result.records), result.next_offset) == (expected, expected)


@pytest.mark.parametrize("count", [0, -1, -(2**31)])
def test_a_count_that_makes_no_sense_gives_one_message_and_skips_none(shelf: Shelf, count: int) -> None:
    shelf.add(50)
    result = shelf.get(0, count=count)
    assert (len(result.records), result.next_offset) == (1, 1)


@pytest.mark.parametrize(
    ("size", "expected"),
    [(0, 1), (-5, 1), (RECORD_SIZE, 1), (3 * RECORD_SIZE - 1, 2), (3 * RECORD_SIZE, 3), (ALL, 10)],
)
def test_bytes_are_kept_but_for_the_first_message(shelf: Shelf, size: int, expected: int) -> None:
    shelf.add(10)
    result = shelf.get(0, size=size)
    assert (len(result.records), result.next_offset) == (expected, expected)


def test_the_settings_limit_the_bytes_too(shelf: Shelf) -> None:
    shelf.add(10)
    settings = replace(SMALL, max_transfer_bytes_on_message_in_memory=4 * RECORD_SIZE)
    assert len(shelf.get(0, settings=settings).records) == 4


def test_only_messages_with_a_wanted_tag_are_given(shelf: Shelf) -> None:
    for tags in ["A", "B", None, "C", "A"]:
        shelf.add(tags=tags)
    result = shelf.get(0, tags={"A", "C"})
    assert (result.status, result.next_offset, offsets(result)) == (GetStatus.FOUND, 5, [0, 3, 4])


def test_where_no_message_has_the_tag_the_next_offset_is_behind_those_looked_at(shelf: Shelf) -> None:
    shelf.add(5, tags="A")
    result = shelf.get(1, tags={"B"})
    assert (result.status, result.next_offset, result.records) == (GetStatus.NO_MATCHED_MESSAGE, 5, [])


def test_a_filtered_read_walks_no_further_than_the_settings_allow(shelf: Shelf) -> None:
    shelf.add(60, tags="A")
    settings = replace(SMALL, max_filter_message_size=50 * SIZE)
    for count in (1, 2**31 - 1):
        assert shelf.get(0, count=count, tags={"B"}, settings=settings).next_offset == 50


def test_a_filtered_read_stops_when_it_has_enough(shelf: Shelf) -> None:
    shelf.add(10, tags="A")
    assert shelf.get(0, count=2, tags={"A"}).next_offset == 2


@given(
    kinds=st.lists(st.sampled_from(["A", "B", None, "lost"]), min_size=1, max_size=80),
    wanted=st.none() | st.sets(st.sampled_from(["A", "B"]), min_size=1),
    count=st.integers(1, 40),
    size=st.integers(0, 12 * RECORD_SIZE),
    written=st.integers(0, 80),
)
def test_reading_on_from_the_next_offset_gives_each_wanted_message_once(
    kinds: list[str | None], wanted: set[str] | None, count: int, size: int, written: int
) -> None:
    shelf = Shelf()
    for number, kind in enumerate(kinds):
        if kind == "lost":
            shelf.add_lost()
        else:
            shelf.add(tags=kind)
        if number == written:
            shelf.queue.write_back()
    found: list[int] = []
    at = 0
    while at < shelf.queue.max_offset:
        result = shelf.get(at, count=count, size=size, tags=wanted)
        assert result.next_offset > at
        assert bool(result.records) == (result.status is GetStatus.FOUND)
        found += offsets(result)
        at = result.next_offset
    assert found == [
        number for number, kind in enumerate(kinds) if kind != "lost" and (wanted is None or kind in wanted)
    ]


def test_a_record_filter_chooses_among_all_that_a_read_walks() -> None:
    class Wanted:
        def work(self, _record: bytes) -> int:
            return 1

        def may_match(self, _store_time: int, _bitmap: bytes) -> bool:
            return True

        def matches(self, record: bytes) -> bool:
            return decode(record).body == b"wanted"

    shelf = Shelf()
    shelf.add(3)
    shelf.add(2, body=b"wanted")
    shelf.add()
    result = shelf.get(0, count=1, record_filter=Wanted())
    assert (result.status, result.next_offset, len(result.records)) == (GetStatus.FOUND, 4, 1)
    result = shelf.get(0, record_filter=Wanted())
    assert (result.status, result.next_offset, len(result.records)) == (GetStatus.FOUND, 6, 2)
    result = shelf.get(5, count=1, record_filter=Wanted())
    assert (result.status, result.next_offset, result.records) == (GetStatus.NO_MATCHED_MESSAGE, 6, [])


def test_a_filtered_read_ends_when_its_filter_has_done_enough_work() -> None:
    class Thorough:
        looked_at = 0

        def may_match(self, _store_time: int, _bitmap: bytes) -> bool:
            return True

        def matches(self, _record: bytes) -> bool:
            self.looked_at += 1
            return False

        def work(self, _record: bytes) -> int:
            return FILTER_WORK_MAX // 3 + 1

    shelf = Shelf()
    shelf.add(10)
    thorough = Thorough()
    result = shelf.get(0, count=1, record_filter=thorough)
    assert (result.status, result.next_offset, thorough.looked_at) == (GetStatus.NO_MATCHED_MESSAGE, 3, 3)
    assert shelf.get(result.next_offset, count=1, record_filter=thorough).next_offset == 6


NEAR = 10 * RECORD_SIZE
"""So much of the log's end counts as being in memory in the tests below."""


def near(**limits: int) -> GetLimits:
    return GetLimits.of(SMALL)._replace(memory_bytes=NEAR, **limits)


def test_what_lies_far_behind_the_end_has_limits_of_its_own(shelf: Shelf) -> None:
    shelf.add(60)
    for queue_offset, count in ((0, 8), (41, 8), (42, 18), (43, 17), (50, 10)):
        result = shelf.get(queue_offset, limits=near())
        assert len(result.records) == count, "up to 8 from the disk, and more only from memory"
        assert result.is_far_behind is (queue_offset + count <= 50)


def test_bytes_are_limited_by_where_the_next_message_is(shelf: Shelf) -> None:
    shelf.add(60)
    assert len(shelf.get(0, limits=near(disk_size=3 * RECORD_SIZE)).records) == 3
    assert len(shelf.get(48, limits=near(disk_size=3 * RECORD_SIZE)).records) == 12
    assert len(shelf.get(52, limits=near(memory_size=3 * RECORD_SIZE)).records) == 3
    assert len(shelf.get(0, size=2 * RECORD_SIZE, limits=near()).records) == 2


def test_the_first_message_is_given_whatever_its_size_wherever_it_is(shelf: Shelf) -> None:
    shelf.add(1, body=bytes(4 * RECORD_SIZE))
    shelf.add(60)
    tight = near(disk_size=1, memory_size=1)
    assert (len(shelf.get(0, limits=tight).records), len(shelf.get(60, limits=tight).records)) == (1, 1)


@pytest.fixture
def expired() -> Shelf:
    """100 messages, of which the first 40 have expired, though the queue has not been told yet."""
    shelf = Shelf(log_file_size=4_096)
    shelf.add(PER_FILE, tags="A")
    second = shelf.log.chain.starts[1]
    assert shelf.log.chain.detach_before(second)
    assert shelf.queue.entry(40).physical_offset == second
    return shelf


def test_what_expired_is_passed_over_before_the_queue_is_told(expired: Shelf) -> None:
    for queue_offset in (0, 39, 40):
        result = expired.get(queue_offset)
        assert result.status is GetStatus.FOUND
        assert offsets(result) == list(range(40, result.next_offset)) != []
    nothing = expired.get(0, settings=replace(SMALL, max_filter_message_size=32 * SIZE))
    assert (nothing.status, nothing.next_offset) == (GetStatus.MESSAGE_WAS_REMOVING, 32)
    unwanted = expired.get(0, tags={"B"})
    assert (unwanted.status, unwanted.next_offset) == (GetStatus.NO_MATCHED_MESSAGE, PER_FILE)


def test_once_the_queue_is_told_what_expired_is_before_its_beginning(expired: Shelf) -> None:
    expired.queue.correct_min_offset(expired.log.min_offset)
    for queue_offset in (0, 39):
        assert expired.get(queue_offset) == GetResult(GetStatus.OFFSET_TOO_SMALL, 40, 40, PER_FILE, [])
    assert expired.get(40).status is GetStatus.FOUND


def test_a_queue_whose_messages_all_expired_goes_on_where_it_ended(shelf: Shelf) -> None:
    shelf.add(5)
    shelf.queue.correct_min_offset(shelf.log.written_offset)
    assert shelf.get(4) == GetResult(GetStatus.OFFSET_TOO_SMALL, 5, 5, 5, [])
    assert shelf.get(5) == GetResult(GetStatus.OFFSET_OVERFLOW_ONE, 5, 5, 5, [])
    assert shelf.get(6) == GetResult(GetStatus.OFFSET_OVERFLOW_BADLY, 5, 5, 5, [])


def test_the_last_entry_that_was_looked_for_says_how_a_read_without_messages_ends(shelf: Shelf) -> None:
    shelf.add(1, tags="A")
    shelf.add_lost()
    assert shelf.get(0, tags={"B"}).status is GetStatus.NO_MATCHED_MESSAGE
    assert shelf.get(1).status is GetStatus.MESSAGE_WAS_REMOVING


def test_messages_are_one_run_wherever_they_lie(shelf: Shelf) -> None:
    shelf.add(5)
    shelf.log.append([new_message("Other")], [0], 1)
    shelf.add(2)
    result = shelf.get(0)
    assert [len(run) for run in result.runs] == [7 * RECORD_SIZE]
    assert result.sizes == [RECORD_SIZE] * 7 and offsets(result) == list(range(7))
