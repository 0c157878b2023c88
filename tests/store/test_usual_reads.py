"""Reads in one go: they give what reads give that go the long way, or leave it to those."""

from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.store.conftest import ROOT, SMALL, new_message

from cometmq import kernels
from cometmq.format import layout
from cometmq.format.checksum import Crc
from cometmq.format.java_hash import tags_code
from cometmq.format.queue_entry import FILLER, SIZE, unpack_tuples
from cometmq.io.open_files import OpenFiles
from cometmq.message import Buffer
from cometmq.store.commit_log import CommitLog
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.get import get_at_hand, get_messages
from cometmq.store.get_result import GetResult, GetStatus
from cometmq.store.limits import Limits
from cometmq.store.queues import Queues
from cometmq.store.reading import run
from cometmq.store.usual_reads import UsualReads
from cometmq.testing.memory_disk import MemoryDisk

PER_FILE = 20
ALL = 2**63 - 1
TAGS = ("A", "B", None)
QUEUES = 3


class Message(NamedTuple):
    """A message to store: of which queue, with which tag, how large; size 0 is one that is lost."""

    queue: int
    tag: str | None
    size: int


class Wish(NamedTuple):
    """A read."""

    queue: int
    queue_offset: int
    max_count: int
    max_bytes: int
    tags: frozenset[str | None] | None


class Shelf:
    """A log and some queues."""

    def __init__(self, limits: Limits) -> None:
        self.disk = MemoryDisk()
        files = OpenFiles(self.disk, writable=True)
        self.log = CommitLog(files, layout.commitlog_dir(ROOT), 16_384)
        queues = Queues(files, ROOT, PER_FILE * SIZE)
        self.queues: list[ConsumeQueue] = [queues.get("Orders", n) for n in range(QUEUES)]
        self.limits = limits
        self.usual = UsualReads(self.log, limits)

    def add(self, message: Message) -> None:
        queue = self.queues[message.queue]
        if not message.size:
            queue.put(queue.max_offset, *FILLER)
            return
        body = b"%d" % queue.max_offset * (message.size // 2)
        (at,) = self.log.append(
            [new_message(queue_id=message.queue, body=body, tags=message.tag)], [queue.max_offset], 1
        )
        queue.put(at.queue_offset, at.physical_offset, at.size, tags_code(message.tag))

    def get(self, wish: Wish, usual: UsualReads | None) -> GetResult:
        codes = None if wish.tags is None else frozenset(map(tags_code, wish.tags))
        queue, limits = self.queues[wish.queue], self.limits
        wished: dict[str, Any] = {
            "max_count": wish.max_count,
            "max_bytes": wish.max_bytes,
            "tags_codes": codes,
        }
        if usual is not None:
            result = get_at_hand(usual, queue, wish.queue_offset, limits, **wished)
            if result is not None:
                return result
        return run(get_messages(self.log, queue, wish.queue_offset, limits, **wished))

    def flip(self, place: float, bit: int) -> None:
        """Damage the log."""
        position = int(place * self.log.written_offset)
        start = self.log.chain.start_of(position)
        assert start is not None
        file = self.log.chain.file(start)
        file.write(position - start, bytes((file.read(position - start, 1)[0] ^ 1 << bit,)))


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    kernels.load()


def seen(result: GetResult) -> tuple[object, ...]:
    return *result._replace(runs=[], sizes=(), damaged=None), result.records, str(result.damaged)


messages = st.builds(
    Message, st.integers(0, QUEUES - 1), st.sampled_from(TAGS), st.sampled_from((0, 1, 10, 10, 10, 10, 3_000))
)
wishes = st.builds(
    Wish,
    st.integers(0, QUEUES - 1),
    st.integers(-1, 60),
    st.sampled_from((0, 1, 2, 5, 32, 1_000)),
    st.sampled_from((1, 300, 2_000, ALL)),
    st.none() | st.frozensets(st.sampled_from(TAGS)),
)


@settings(deadline=None)
@given(
    stored=st.lists(messages, max_size=60),
    written_back=st.booleans(),
    wanted=st.lists(wishes, min_size=1, max_size=10),
    memory_bytes=st.sampled_from((0, 2_000, ALL)),
    flips=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 7)), max_size=2),
)
def test_in_one_go_or_the_long_way_a_read_gives_the_same(
    stored: list[Message],
    written_back: bool,
    wanted: list[Wish],
    memory_bytes: int,
    flips: list[tuple[float, int]],
) -> None:
    tight = replace(
        SMALL, max_transfer_bytes_on_message_in_memory=2_500, max_transfer_count_on_message_in_disk=3
    )
    shelf = Shelf(Limits.of(tight)._replace(memory_bytes=memory_bytes))
    for message in stored:
        shelf.add(message)
    for queue in shelf.queues if written_back else ():
        queue.write_back()
    for place, bit in flips if shelf.log.written_offset else ():
        shelf.flip(place, bit)
    for wish in wanted:
        assert seen(shelf.get(wish, shelf.usual)) == seen(shelf.get(wish, None)), wish


class Counted(UsualReads):
    """Counts the reads that it does."""

    count = 0

    def read(self, *args: Any) -> GetResult | None:
        result = super().read(*args)
        self.count += result is not None
        return result


@pytest.fixture
def shelf() -> Shelf:
    shelf = Shelf(Limits.of(SMALL))
    shelf.usual = Counted(shelf.log, shelf.limits)
    for n in range(3 * PER_FILE):
        shelf.add(Message(n % QUEUES, TAGS[n // QUEUES % 3], 10))
    return shelf


@pytest.mark.parametrize("written_back", [False, True])
@pytest.mark.parametrize("tags", [None, frozenset("A"), frozenset("C")])
@pytest.mark.parametrize("max_count", [1, 32])
def test_what_is_in_memory_is_read_in_one_go(
    shelf: Shelf, written_back: bool, tags: frozenset[str | None] | None, max_count: int
) -> None:
    for queue in shelf.queues if written_back else ():
        queue.write_back()
    assert isinstance(shelf.usual, Counted)
    for queue_offset in range(PER_FILE - 1):
        result = shelf.get(Wish(1, queue_offset, max_count, ALL, tags), shelf.usual)
        assert result.status is (GetStatus.NO_MATCHED_MESSAGE if tags == frozenset("C") else GetStatus.FOUND)
    assert shelf.usual.count == PER_FILE - 1


def test_records_side_by_side_are_one_piece_of_the_file(shelf: Shelf) -> None:
    def runs(queue_offset: int, count: int) -> list[Buffer]:
        return shelf.get(Wish(0, queue_offset, count, ALL, None), shelf.usual).runs

    for _ in range(5):
        shelf.add(Message(0, None, 10))
    assert len(runs(PER_FILE - 5, 5)) == 5
    shelf.queues[0].write_back()
    assert [len(runs(PER_FILE, count)) for count in (1, 5)] == [1, 1]
    assert isinstance(runs(PER_FILE, 5)[0], memoryview)


@settings(deadline=None)
@given(
    stored=st.lists(messages, max_size=30),
    flips=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 7)), max_size=2),
    places=st.lists(st.integers(0, 10_000), max_size=5),
)
def test_a_record_is_read_by_its_place_as_the_log_reads_it(
    stored: list[Message], flips: list[tuple[float, int]], places: list[int]
) -> None:
    shelf = Shelf(Limits.of(SMALL))
    for message in stored:
        shelf.add(message)
    begins = [
        offset
        for queue in shelf.queues
        for offset, _, _ in unpack_tuples(queue.read(0, queue.max_offset))
        if offset != FILLER.physical_offset
    ]
    for place in (*begins, *places):
        assert shelf.usual.record(place) == run(shelf.log.record_at(place))
    assert None not in map(shelf.usual.record, begins)
    for where, bit in flips if shelf.log.written_offset else ():
        shelf.flip(where, bit)
    for place in begins:
        assert shelf.usual.record(place) in (None, run(shelf.log.record_at(place)))
    shelf.disk.cold = True
    assert not any(map(shelf.usual.record, begins))


def test_what_is_not_in_memory_is_left_to_others(shelf: Shelf) -> None:
    shelf.disk.cold = True
    assert isinstance(shelf.usual, Counted)
    for wish in (Wish(0, 0, 32, ALL, None), Wish(0, 0, 1, ALL, None)):
        assert shelf.get(wish, shelf.usual).status is GetStatus.FOUND
    assert shelf.usual.count == 0


@pytest.mark.parametrize("max_count", [1, 32])
def test_records_that_must_have_the_property_crc_are_not_given_without_it(
    shelf: Shelf, max_count: int
) -> None:
    shelf.log.crc = Crc.RECORD
    assert isinstance(shelf.usual, Counted)
    result = shelf.get(Wish(0, 0, max_count, ALL, None), shelf.usual)
    assert (result.records, shelf.usual.count) == ([], 0)
    assert "does not end in the property CRC" in str(result.damaged)
