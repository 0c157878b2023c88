"""One ConsumeQueue: entries in memory and in files, read as one; what recovery finds in the files."""

from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from cometmq.format.queue_entry import FILLER, QueueEntry, pack, unpack_many
from cometmq.io.open_files import OpenFiles
from cometmq.store import reading
from cometmq.store.files.file_chain import FileChain
from cometmq.store.queue import entries_ahead, entry_reads
from cometmq.store.queue.consume_queue import ENTRY_DTYPE, ConsumeQueue
from cometmq.store.queue.entries_ahead import AHEAD
from cometmq.testing.memory_disk import MemoryDisk

DIRECTORY = Path("/consumequeue/T/0")
PER_FILE = 5
SIZE = 100
NOWHERE = 2**63 - 1
"""Each message's record is so long, so that message n lies at 100 × n."""


def queue_on(disk: MemoryDisk, per_file: int = PER_FILE) -> ConsumeQueue:
    chain = FileChain(OpenFiles(disk, writable=True), DIRECTORY, per_file * 20, "mappedFileSize")
    return ConsumeQueue(chain, "T", 0)


def filled(count: int, disk: MemoryDisk | None = None) -> ConsumeQueue:
    """A queue of ``count`` messages, all in memory."""
    queue = queue_on(disk or MemoryDisk())
    for n in range(count):
        assert queue.put(n, n * SIZE, SIZE, n)
    return queue


def entries(queue: ConsumeQueue, first: int = 0, count: int = 1_000) -> list[QueueEntry]:
    return list(unpack_many(queue.read(first, count)))


def run(first: int, last: int) -> np.ndarray:
    """The entries of some messages as dispatch gives them."""
    return np.array([(n * SIZE, SIZE, n) for n in range(first, last)], ENTRY_DTYPE)


class Entries(RuleBasedStateMachine):
    """A queue beside a list: put, written back, killed, closed, cut."""

    @initialize()
    def begin(self) -> None:
        self.disk = MemoryDisk()
        self.queue = queue_on(self.disk)
        self.model: list[QueueEntry] = []
        self.written = 0

    def _message(self, n: int) -> QueueEntry:
        return QueueEntry(n * SIZE, SIZE, n)

    @rule(count=st.integers(1, 7))
    def put(self, count: int) -> None:
        for _ in range(count):
            n = len(self.model)
            assert self.queue.put(n, *self._message(n))
            self.model.append(self._message(n))

    @rule(back=st.integers(0, 5), count=st.integers(1, 12))
    def put_run(self, back: int, count: int) -> None:
        first = max(len(self.model) - back, 0)
        new = max(first + count - len(self.model), 0)
        assert self.queue.put_run(first, run(first, first + count)) == new
        self.model += [self._message(n) for n in range(len(self.model), len(self.model) + new)]

    @rule()
    def write_back(self) -> None:
        self.queue.write_back()
        self.written = len(self.model)
        assert self.queue.pending_bytes == 0

    @rule()
    def close_and_open(self) -> None:
        self.write_back()
        self.queue = queue_on(self.disk)
        self.queue.recover(None)
        self.queue.clear_behind_end()

    @rule()
    def kill_and_open(self) -> None:
        self.disk = self.disk.after_kill()
        self.queue = queue_on(self.disk)
        self.queue.recover(self.disk.remove)
        self.queue.clear_behind_end()
        del self.model[self.written :]

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        kept = data.draw(st.integers(0, len(self.model)))
        self.queue.truncate(kept * SIZE)
        if kept < len(self.model):
            del self.model[kept:]
            self.written = kept

    @precondition(lambda self: self.model)
    @rule(first=st.integers(0, 30), count=st.integers(1, 4))
    def read_what_is_at_hand(self, first: int, count: int) -> None:
        first %= len(self.model)
        with mock.patch.object(entries_ahead, "AHEAD", 3):
            found = self.queue.resident_entries(first, count)
        assert found is None or list(unpack_many(found)) == self.model[first : first + count]

    @invariant()
    def reads_as_the_list(self) -> None:
        end = len(self.model)
        assert self.queue.max_offset == end
        assert entries(self.queue) == self.model
        assert entries(self.queue, end // 2, 3) == self.model[end // 2 : end // 2 + 3]
        assert self.queue.physical_end == end * SIZE
        assert self.queue.last_message() == (self.model[-1] if self.model else None)


Entries.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestEntries = Entries.TestCase


def test_who_reads_on_gets_what_was_read_with_the_entries_before() -> None:
    queue = queue_on(MemoryDisk(), 1_000)
    for n in range(3 * AHEAD):
        queue.put(n, n * SIZE, SIZE, n)
    queue.write_back()
    asked: list[int] = []
    for first in range(0, 3 * AHEAD - 32, 32):
        with mock.patch.object(entry_reads, "resident", wraps=entry_reads.resident) as read:
            found = queue.resident_entries(first, 32)
        assert found is not None and list(unpack_many(found)) == entries(queue, first, 32)
        asked += [begin for _, _, _, begin, _ in (call.args for call in read.call_args_list)]
    assert 3 <= len(set(asked)) <= 5


def test_entries_of_a_queue_that_begins_anew_are_read_anew() -> None:
    queue = queue_on(MemoryDisk(), 1_000)
    for number in (5, 9):
        for n in range(10):
            queue.put(n, n * SIZE, SIZE, number)
        queue.write_back()
        found = queue.resident_entries(0, 2)
        assert found is not None and [one.tags_code for one in unpack_many(found)] == [number, number]
        queue.clear()


def test_a_message_that_is_there_is_not_put_again() -> None:
    queue = filled(3)
    assert not queue.put(1, SIZE, SIZE, 1)
    assert queue.max_offset == 3


def test_a_gap_is_filled_with_fillers_that_stand_for_no_message() -> None:
    queue = filled(2)
    assert queue.put(5, 500, SIZE, 5)
    assert entries(queue)[2:5] == [FILLER] * 3
    assert reading.run(queue.find_message(2)) == (5, QueueEntry(500, SIZE, 5))
    assert queue.put_run(8, run(8, 10)) == 2
    assert queue.max_offset == 10
    queue.put(12, 1_200, SIZE, 12)
    assert reading.run(queue.find_message(10)) == (12, QueueEntry(1_200, SIZE, 12))


@pytest.mark.parametrize("first", [5, 7, 23])
def test_a_queue_can_begin_anywhere_and_its_first_file_holds_fillers_before_that(first: int) -> None:
    disk = MemoryDisk()
    queue = queue_on(disk)
    assert queue.put(first, first * SIZE, SIZE, first)
    assert (queue.min_offset, queue.max_offset) == (first, first + 1)
    queue.write_back()
    begin = first - first % PER_FILE
    assert queue.chain.starts == [begin * 20]
    again = queue_on(disk)
    again.recover(disk.remove)
    again.correct_min_offset(0)
    assert (again.min_offset, again.max_offset, again.entry(first).tags_code) == (first, first + 1, first)


@given(st.integers(0, 30), st.integers(0, 3_100))
def test_the_first_message_still_in_the_log_is_the_first_one(count: int, min_physical_offset: int) -> None:
    queue = filled(count)
    queue.correct_min_offset(min_physical_offset)
    assert queue.min_offset == min(-(-min_physical_offset // SIZE), count)


@pytest.mark.parametrize(
    "odd",
    [
        bytes(20),
        pack(-1, SIZE, 0),
        pack(700, 0, 0),
        pack(300, SIZE, 0),  # behind the one before it lies what is before it in the log
    ],
)
def test_after_a_kill_the_data_ends_at_the_first_entry_that_cannot_be(odd: bytes) -> None:
    disk = MemoryDisk()
    queue = filled(13, disk)
    queue.write_back()
    queue.chain.write(7 * 20, odd)
    again = queue_on(disk.after_kill())
    again.recover(disk.remove)
    assert again.max_offset == 7
    pieces = dict(again.behind_end())
    assert b"".join(pieces.values()).strip(b"\0") == queue.chain.read(7 * 20, 6 * 20).strip(b"\0")
    again.clear_behind_end()
    assert list(again.behind_end()) == []
    assert again.put(7, 700, SIZE, 7)
    again.write_back()
    assert [entry.tags_code for entry in entries(again)] == list(range(8))
    assert again.chain.read(8 * 20, 1_000).strip(b"\0") == b"", "what lay behind it is gone"


@pytest.mark.parametrize("files", [1, 5])
def test_files_that_were_made_and_not_written_to_do_not_pass_for_entries(files: int) -> None:
    disk = MemoryDisk()
    queue = filled(5, disk)
    queue.write_back()
    for _ in range(files):
        queue.chain.extend()
    for trusted in (True, False):
        again = queue_on(disk.after_kill())
        again.recover(None if trusted else disk.remove)
        assert again.max_offset == 5


def test_a_queue_that_begins_anew_forgets_its_files() -> None:
    disk = MemoryDisk()
    queue = filled(12, disk)
    queue.write_back()
    queue.clear()
    assert (queue.max_offset, queue.chain.starts) == (0, [])
    assert queue.put(0, 5_000, SIZE, 0)
    assert [entry.physical_offset for entry in entries(queue)] == [5_000]


def test_what_was_written_must_be_synced_once() -> None:
    queue = filled(7)
    assert queue.take_unsynced() == []
    queue.write_back()
    assert [path.name[-3:] for path in queue.take_unsynced()] == ["000", "100"]
    assert queue.take_unsynced() == []
    queue.put(7, 700, SIZE, 7)
    queue.write_back()
    assert [path.name[-3:] for path in queue.take_unsynced()] == ["100"]


def test_expired_entries_go_with_their_files_and_the_beginning_is_corrected() -> None:
    disk = MemoryDisk()
    queue = filled(2 * PER_FILE + 2, disk)
    queue.write_back()
    names = disk.names(DIRECTORY)
    assert queue.take_expired(0, NOWHERE) == []
    assert queue.take_expired(3 * SIZE, NOWHERE) == []
    assert queue.min_offset == 3
    assert [path.name for path in queue.take_expired((PER_FILE + 1) * SIZE, NOWHERE)] == names[:1]
    assert queue.min_offset == PER_FILE + 1
    assert entries(queue, PER_FILE + 1, 1) == [QueueEntry((PER_FILE + 1) * SIZE, SIZE, PER_FILE + 1)]
    assert [path.name for path in queue.take_expired(10**6, NOWHERE)] == names[
        1:2
    ]  # the last file tells where it ends
    assert queue.min_offset == queue.max_offset == 2 * PER_FILE + 2
    assert queue.put(queue.max_offset, 10**6, SIZE, 0)
    assert queue.take_expired(10**6, NOWHERE) == []
    assert queue.min_offset == queue.max_offset - 1


def test_a_file_whose_last_entries_stand_for_lost_messages_stays_while_an_entry_before_them_lives() -> None:
    queue = filled(2)
    queue.put(PER_FILE + 1, 900, SIZE, 0)  # between the two come fillers, up to the next file
    queue.write_back()
    assert queue.take_expired(SIZE, NOWHERE) == []
    assert queue.min_offset == 1
    assert len(queue.take_expired(2 * SIZE, NOWHERE)) == 1
    assert queue.min_offset == PER_FILE + 1


def test_entries_in_memory_expire_too() -> None:
    queue = filled(7)
    assert queue.take_expired(4 * SIZE, NOWHERE) == []
    assert (queue.min_offset, queue.max_offset) == (4, 7)
    assert queue.take_expired(10**6, NOWHERE) == []
    assert queue.min_offset == queue.max_offset == 7


def test_the_file_before_one_that_may_not_be_on_the_disk_stays() -> None:
    queue = filled(2 * PER_FILE)
    queue.write_back()
    begin = PER_FILE * SIZE
    assert queue.take_expired(begin, begin) == []
    assert queue.min_offset == PER_FILE
    assert len(queue.take_expired(begin, begin + 1)) == 1


@pytest.mark.parametrize("count", [0, 1, 2])
def test_what_was_cut_and_does_not_come_again_is_cleared(disk: MemoryDisk, count: int) -> None:
    queue = filled(4, disk)
    queue.write_back()
    again = queue_on(disk)
    again.recover(disk.remove)
    again.cut(2 * SIZE)
    for n in range(2, 2 + count):
        assert again.put(n, n * SIZE, SIZE, n)
    again.clear_behind_end()
    written = disk.load(again.chain.path(0))
    assert written[20 * (2 + count) :].strip(b"\0") == b""
    assert written[: 20 * 2] == queue.read(0, 2)


@pytest.mark.parametrize("physical_offset", [0, 1, 99, 100, 650, 700, 1_300, 9_999])
def test_a_queue_is_cut_and_begins_where_its_messages_do_whatever_fillers_there_are(
    physical_offset: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cometmq.store.queue.consume_queue.BLOCK_ENTRIES", 4)
    queue = filled(3)
    queue.put(9, 900, SIZE, 0)  # 3 to 8 are lost
    queue.put(10, 1_000, SIZE, 0)
    queue.put(17, 1_700, SIZE, 0)
    queue.write_back()
    there = [n for n in (0, 1, 2, 9, 10, 17) if n * SIZE >= physical_offset]
    queue.correct_min_offset(physical_offset)
    assert queue.min_offset == (there[0] if there else 18)
    queue.cut(physical_offset)
    left = [entry for entry in entries(queue) if not entry.is_filler]
    assert [entry.physical_offset for entry in left] == [
        n * SIZE for n in (0, 1, 2, 9, 10, 17) if n * SIZE < physical_offset
    ]
