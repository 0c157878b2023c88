"""Dispatch in the running store: entries at once or after the sync, the index a little behind."""

from collections.abc import Sequence

import pytest
from tests.store.conftest import ROOT, SMALL, new_message

from cometmq.format import layout, properties
from cometmq.format.delay_level import SCHEDULE_TOPIC, DelayLevels
from cometmq.format.dispatch import dispatch_of
from cometmq.format.java.java_hash import tags_code
from cometmq.format.record import decode
from cometmq.format.sys_flag import (
    TRANSACTION_COMMIT,
    TRANSACTION_NOT,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
)
from cometmq.io.open_files import OpenFiles
from cometmq.store import NewMessage
from cometmq.store.files.spread import LogSpread
from cometmq.store.index.index import Index
from cometmq.store.log.commit_log import CommitLog
from cometmq.store.queue.ledger import Ledger
from cometmq.store.queue.queues import Queues
from cometmq.store.reading import run
from cometmq.store.upkeep import dispatch
from cometmq.store.upkeep.dispatch import (
    NO_QUEUE,
    TAGS_KNOWN_MAX,
    TAGS_LENGTH_MAX,
    Arrival,
    Dispatcher,
    has_queue_entry,
)
from cometmq.testing.memory_disk import MemoryDisk

TIME = 1_700_000_000_000
DELAYS = DelayLevels.parse("1s 5s 10s")


class Desk:
    """A dispatcher with a log, queues and an index."""

    def __init__(self, disk: MemoryDisk) -> None:
        files = OpenFiles(disk, writable=True)
        self.log = CommitLog(files, LogSpread((layout.commitlog_dir(ROOT),)), 1 << 20)
        self.queues = Queues(files, ROOT, SMALL.queue_file_size)
        self.index = Index(files, ROOT, 10, 50)
        self.dispatcher = Dispatcher(self.log, self.index, DELAYS, self.queues, Ledger(disk, ROOT))
        self.told: list[Arrival] = []
        self.dispatcher.listen(self.told.extend, [["somebody"]])

    def append(self, *messages: NewMessage, readable: int | None = None, time: int = TIME) -> int:
        """Append as the store does; gives the log's end."""
        taken = [
            self.queues.take_offset(message.topic, message.queue_id)
            if has_queue_entry(message.sys_flag)
            else (NO_QUEUE, 0)
            for message in messages
        ]
        appended = self.log.append(messages, [queue_offset for _, queue_offset in taken], time)
        end = self.log.written_offset
        self.dispatcher.add(
            [number for number, _ in taken], messages, appended, end if readable is None else readable
        )
        return end

    def keys_found(self, topic: str, key: str) -> int:
        return len(run(self.index.find(topic, key, begin_time=0, end_time=2**62, max_count=64)))


@pytest.fixture
def desk(disk: MemoryDisk) -> Desk:
    return Desk(disk)


def test_what_is_readable_is_dispatched_at_once_and_told(desk: Desk) -> None:
    end = desk.append(new_message(tags="TagA"), new_message("Other", 3))
    assert desk.told == [Arrival("Orders", 0, 1, tags_code("TagA")), Arrival("Other", 3, 1, 0)]
    assert (desk.dispatcher.dispatched_offset, desk.dispatcher.dispatched_time) == (end, TIME)


def test_what_is_not_on_the_disk_yet_waits_in_its_order(desk: Desk) -> None:
    first = desk.append(new_message(), readable=0)
    second = desk.append(new_message(), readable=0, time=TIME + 1)
    assert desk.told == [] and desk.dispatcher.dispatched_offset == 0
    desk.dispatcher.dispatch(first)
    assert [arrival.next_offset for arrival in desk.told] == [1]
    desk.dispatcher.dispatch(second - 1)
    assert desk.dispatcher.dispatched_time == TIME
    desk.dispatcher.dispatch(second)
    assert [arrival.next_offset for arrival in desk.told] == [1, 2]
    assert desk.dispatcher.dispatched_time == TIME + 1


def test_a_batch_of_which_a_part_is_on_the_disk_waits_as_a_whole(desk: Desk) -> None:
    end = desk.append(new_message(), new_message(), readable=100)
    assert desk.told == []
    desk.dispatcher.dispatch(end)
    assert len(desk.told) == 2


@pytest.mark.parametrize(
    ("flag", "expected"),
    [
        (TRANSACTION_NOT, True),
        (TRANSACTION_PREPARED, False),
        (TRANSACTION_COMMIT, True),
        (TRANSACTION_ROLLBACK, False),
        (TRANSACTION_PREPARED | 1, False),
        (0x71F0 | TRANSACTION_COMMIT, True),
    ],
)
def test_prepared_and_rolled_back_messages_get_no_entry(desk: Desk, flag: int, *, expected: bool) -> None:
    assert has_queue_entry(flag) is expected
    desk.append(new_message(sys_flag=flag))
    assert bool(desk.told) is expected


def test_entries_equal_those_that_the_records_give(desk: Desk) -> None:
    delayed = {properties.TAGS: "TagA", properties.DELAY: "2"}
    messages: Sequence[NewMessage] = [
        new_message(tags="TagA"),
        new_message(tags="TagA"),  # known by now
        new_message(),
        new_message(tags="ünï 😀"),
        new_message(tags="x" * (TAGS_LENGTH_MAX + 1)),
        new_message(SCHEDULE_TOPIC, 1, tags="TagA")._replace(properties=properties.encode(delayed)),
        new_message(SCHEDULE_TOPIC, 1, tags="TagA"),
    ]
    desk.append(*messages)
    for queue in desk.queues:
        for queue_offset in range(queue.max_offset):
            entry = queue.entry(queue_offset)
            record = decode(desk.log.read_record(entry.physical_offset) or b"")
            expected = dispatch_of(record, DELAYS)
            assert (entry.size, entry.tags_code) == (expected.size, expected.tags_code)
            assert (expected.queue_offset, expected.topic) == (queue_offset, queue.topic)


def test_tags_are_remembered_up_to_a_limit(desk: Desk) -> None:
    for first in range(0, TAGS_KNOWN_MAX + 10, 100):
        desk.append(*[new_message(tags=f"tag{first + n}") for n in range(100)])
    desk.append(new_message(tags="x" * 30_000))
    known = desk.dispatcher._tags_codes
    assert len(known) <= TAGS_KNOWN_MAX + 1
    assert all(len(tags or "") <= TAGS_LENGTH_MAX for tags in known)


def test_the_upkeep_is_to_follow_when_the_index_lags_behind_or_time_went_back(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "INDEX_LAG_BYTES", 1_000)
    followed: list[int] = []
    desk.dispatcher.follow = lambda: followed.append(desk.dispatcher.dispatched_offset)
    desk.append(new_message(body=bytes(500)))
    assert followed == []
    desk.append(new_message(body=bytes(500)))
    assert followed == [desk.log.written_offset]
    desk.dispatcher.catch_up_index()
    desk.append(new_message())
    assert len(followed) == 1
    desk.append(new_message(), time=TIME - 1)
    assert followed[1:] == [desk.log.written_offset]


def test_the_index_follows_when_it_is_told_to_and_each_key_once(desk: Desk) -> None:
    desk.append(new_message(keys="k1 k2"))
    assert desk.dispatcher.index_lag == desk.log.written_offset
    assert desk.keys_found("Orders", "k1") == 0
    desk.dispatcher.catch_up_index()
    desk.dispatcher.catch_up_index()
    assert desk.dispatcher.index_lag == 0
    assert [desk.keys_found("Orders", key) for key in ("k1", "k2", "k3")] == [1, 1, 0]


def test_the_index_knows_nothing_that_is_not_dispatched(desk: Desk) -> None:
    end = desk.append(new_message(keys="k1"), readable=0)
    desk.dispatcher.catch_up_index()
    assert desk.keys_found("Orders", "k1") == 0
    desk.dispatcher.dispatch(end)
    desk.dispatcher.catch_up_index()
    assert desk.keys_found("Orders", "k1") == 1


def test_prepared_messages_are_indexed_and_rolled_back_ones_not(desk: Desk) -> None:
    desk.append(new_message(keys="prepared", sys_flag=TRANSACTION_PREPARED))
    desk.append(new_message(keys="rolled", sys_flag=TRANSACTION_ROLLBACK))
    desk.dispatcher.catch_up_index()
    assert [desk.keys_found("Orders", key) for key in ("prepared", "rolled")] == [1, 0]


def test_a_full_disk_while_the_index_rolls_loses_no_key_and_doubles_none(
    desk: Desk, disk: MemoryDisk
) -> None:
    for number in range(30):
        desk.append(new_message(keys=f"a{number} b{number} c{number}"))
    disk.space_bytes = 0
    with pytest.raises(OSError, match="No space"):
        desk.dispatcher.catch_up_index()
    with pytest.raises(OSError, match="No space"):
        desk.dispatcher.catch_up_index()
    disk.space_bytes = 1 << 20
    desk.dispatcher.catch_up_index()
    assert {desk.keys_found("Orders", f"{kind}{n}") for kind in "abc" for n in range(30)} == {1}
    assert len(desk.index.paths()) == 2


def test_without_an_index_nothing_follows(disk: MemoryDisk) -> None:
    desk = Desk(disk)
    dispatcher = Dispatcher(desk.log, None, DELAYS, desk.queues, Ledger(disk, ROOT))
    dispatcher.catch_up_index()
    assert disk.names(layout.index_dir(ROOT)) == []
