"""Reads of what is in memory give what reads step by step give."""

from collections.abc import Iterator
from typing import NamedTuple
from unittest.mock import MagicMock, patch

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.store.conftest import ROOT, SMALL, new_message

from cometmq import kernels
from cometmq.format import layout
from cometmq.format.checksum import Crc
from cometmq.format.java.java_hash import tags_code
from cometmq.format.queue_entry import FILLER, SIZE
from cometmq.io.open_files import OpenFiles
from cometmq.kernels import plain
from cometmq.kernels.pulls.plain import PlainPulls
from cometmq.kernels.pulls.rows import ANSWERS_SIZE_MAX, PullOps
from cometmq.message import Buffer
from cometmq.store.files.spread import LogSpread
from cometmq.store.log.commit_log import CommitLog
from cometmq.store.queue.consume_queue import ConsumeQueue
from cometmq.store.queue.queues import Queues
from cometmq.store.read import get
from cometmq.store.read.get import get_messages
from cometmq.store.read.get_result import GetResult, GetStatus
from cometmq.store.read.limits import GetLimits
from cometmq.store.read.resident_reads import ResidentReads
from cometmq.store.reading import run
from cometmq.testing.memory_disk import MemoryDisk

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


class Shelves:
    """A log and some queues."""

    def __init__(self, limits: GetLimits) -> None:
        self.disk = MemoryDisk()
        files = OpenFiles(self.disk, writable=True)
        self.log = CommitLog(files, LogSpread((layout.commitlog_dir(ROOT),)), 16_384)
        queues = Queues(files, ROOT, 20 * SIZE)
        self.queues: list[ConsumeQueue] = [queues.find_or_create("Orders", n) for n in range(QUEUES)]
        self.limits = limits

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

    def get(self, wish: Wish, copied_max: int = ANSWERS_SIZE_MAX) -> GetResult:
        codes = None if wish.tags is None else frozenset(map(tags_code, wish.tags))
        return run(
            get_messages(
                ResidentReads(self.log, self.limits, copied_max),
                self.queues[wish.queue],
                wish.queue_offset,
                max_count=wish.max_count,
                max_bytes=wish.max_bytes,
                tags_codes=codes,
            )
        )

    def flip(self, place: float, bit: int) -> None:
        """Damage the log."""
        position = int(place * self.log.written_offset)
        start = self.log.chain.start_of(position)
        assert start is not None
        file = self.log.chain.file(start)
        file.write(position - start, bytes((file.read(position - start, 1)[0] ^ 1 << bit,)))


@pytest.fixture(scope="module", params=["plain", "compiled"])
def pull_ops(request: pytest.FixtureRequest) -> Iterator[PullOps]:
    """Read with the plain leaf operations, then with the compiled ones."""
    ops = plain.pulls if request.param == "plain" else kernels.load().pulls
    with patch.object(kernels, "pulls_for", lambda crc: ops if crc is Crc.BODY else PlainPulls(crc)):
        yield ops


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


@hypothesis_settings(deadline=None)
@given(
    stored=st.lists(messages, max_size=60),
    written_back=st.booleans(),
    wanted=st.lists(wishes, min_size=1, max_size=10),
    memory_bytes=st.sampled_from((0, 2_000, ALL)),
    flips=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 7)), max_size=2),
)
def test_a_read_by_leaf_operations_gives_what_one_step_by_step_gives(
    pull_ops: PullOps,
    stored: list[Message],
    written_back: bool,
    wanted: list[Wish],
    memory_bytes: int,
    flips: list[tuple[float, int]],
) -> None:
    assert pull_ops is kernels.pulls_for(Crc.BODY)
    tight = replace(
        SMALL, max_transfer_bytes_on_message_in_memory=2_500, max_transfer_count_on_message_in_disk=3
    )
    shelves = Shelves(GetLimits.of(tight)._replace(memory_bytes=memory_bytes))
    for message in stored:
        shelves.add(message)
    for queue in shelves.queues if written_back else ():
        queue.write_back()
    for place, bit in flips if shelves.log.written_offset else ():
        shelves.flip(place, bit)
    for wish in wanted:
        at_hand = seen(shelves.get(wish))
        with patch.object(ResidentReads, "read", lambda *_: None):
            assert at_hand == seen(shelves.get(wish)), wish


@pytest.fixture
def shelves(pull_ops: PullOps) -> Shelves:
    assert pull_ops is kernels.pulls_for(Crc.BODY)
    shelves = Shelves(GetLimits.of(SMALL))
    for n in range(60):
        shelves.add(Message(n % QUEUES, TAGS[n // QUEUES % 3], 10))
    return shelves


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> MagicMock:
    """Count the reads that go step by step."""
    counted = MagicMock(wraps=get._read_step_by_step)
    monkeypatch.setattr(get, "_read_step_by_step", counted)
    return counted


@pytest.mark.parametrize("written_back", [False, True])
@pytest.mark.parametrize("tags", [None, frozenset("A"), frozenset("C")])
@pytest.mark.parametrize("max_count", [1, 32])
def test_what_is_in_memory_is_read_by_leaf_operations(
    shelves: Shelves,
    steps: MagicMock,
    written_back: bool,
    tags: frozenset[str | None] | None,
    max_count: int,
) -> None:
    for queue in shelves.queues if written_back else ():
        queue.write_back()
    for queue_offset in range(19):
        result = shelves.get(Wish(1, queue_offset, max_count, ALL, tags))
        assert result.status is (GetStatus.NO_MATCHED_MESSAGE if tags == frozenset("C") else GetStatus.FOUND)
    assert not steps.called


def test_records_are_copied_unless_that_is_too_much_at_once(shelves: Shelves) -> None:
    def runs(queue_offset: int, count: int, copied_max: int) -> list[Buffer]:
        return shelves.get(Wish(0, queue_offset, count, ALL, None), copied_max).runs

    for _ in range(5):
        shelves.add(Message(0, None, 10))
    (copied,) = runs(15, 5, ANSWERS_SIZE_MAX)
    pieces = runs(15, 5, len(copied) - 1)
    assert (len(pieces), b"".join(pieces)) == (5, copied)
    shelves.queues[0].write_back()
    (side_by_side,) = runs(20, 5, ANSWERS_SIZE_MAX)
    (piece,) = runs(20, 5, len(side_by_side) - 1)
    assert isinstance(piece, memoryview) and piece == side_by_side


def test_what_is_not_in_memory_is_read_step_by_step(shelves: Shelves, steps: MagicMock) -> None:
    shelves.disk.cold = True
    for wish in (Wish(0, 0, 32, ALL, None), Wish(0, 0, 1, ALL, None)):
        assert shelves.get(wish).status is GetStatus.FOUND
    assert steps.call_count == 2


@pytest.mark.parametrize("max_count", [1, 32])
def test_records_that_must_have_the_property_crc_are_not_given_without_it(
    shelves: Shelves, max_count: int
) -> None:
    shelves.log.crc = Crc.RECORD
    result = shelves.get(Wish(0, 0, max_count, ALL, None))
    assert result.records == []
    assert "does not end in the property CRC" in str(result.damaged)
