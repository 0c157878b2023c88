"""Messages of transactions: in the log all of them, in queues and index what RocketMQ puts there.

=============  ============  =======  ================================
kind           queue entry   indexed  its queue offset in the record
=============  ============  =======  ================================
NOT, COMMIT    yes           yes      the next of its queue
PREPARED       no            yes      0, and the queue's next stays
ROLLBACK       no            no       0, and the queue's next stays
=============  ============  =======  ================================

(RocketMQ: CommitLog.java, CommitLogDispatcherBuildConsumeQueue, IndexService.java.)
"""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace
from tests.store.conftest import ROOT, SMALL, OpenStore, new_message

from cometmq.format import layout
from cometmq.format.record import decode
from cometmq.format.sys_flag import (
    TRANSACTION_COMMIT,
    TRANSACTION_NOT,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
)
from cometmq.io.clock import ManualClock
from cometmq.store import Appended, FlushDiskType, MessageStore, NewMessage, StoreSettings
from cometmq.store.recovery.rebuild import rebuild
from cometmq.store.verify import State, verify
from cometmq.testing.memory_disk import MemoryDisk

KINDS = (TRANSACTION_NOT, TRANSACTION_PREPARED, TRANSACTION_COMMIT, TRANSACTION_ROLLBACK)
QUEUED = (TRANSACTION_NOT, TRANSACTION_COMMIT)
SYNC = replace(SMALL, flush_disk_type=FlushDiskType.SYNC_FLUSH)
HALF_OFFSET = 4_711


class Sent(NamedTuple):
    """One message: what it is, and where it went."""

    kind: int
    queue_id: int
    at: Appended


def message_of(number: int, kind: int, queue_id: int) -> NewMessage:
    half = HALF_OFFSET if kind == TRANSACTION_COMMIT else 0
    named: dict[str, Any] = {"keys": f"k{number}", "sys_flag": kind, "prepared_transaction_offset": half}
    return new_message("Orders", queue_id, b"%d" % number, **named)


def sent(store: MessageStore, count: int, first: int = 0) -> list[Sent]:
    """Append messages of all kinds, some of them together, to two queues; message n has the key kn."""
    chance = random.Random(first)
    all_sent: list[Sent] = []
    while len(all_sent) < count:
        kinds = [(chance.choice(KINDS), chance.randrange(2)) for _ in range(chance.randint(1, 4))]
        messages = [message_of(n, *kind) for n, kind in enumerate(kinds, first + len(all_sent))]
        all_sent += [Sent(*kind, at) for kind, at in zip(kinds, store.append(messages), strict=True)]
    return all_sent


def check(store: MessageStore, all_sent: list[Sent]) -> None:
    """Check that queues, index and records are as the table above has them."""
    for queue_id in range(2):
        numbers = [n for n, one in enumerate(all_sent) if one.queue_id == queue_id and one.kind in QUEUED]
        stored = list(store.messages("Orders", queue_id))
        assert [int(message.body) for message in stored] == numbers
        assert [message.queue_offset for message in stored] == list(range(len(numbers)))
        assert [all_sent[n].at.queue_offset for n in numbers] == list(range(len(numbers)))
        assert store.max_queue_offset("Orders", queue_id) == len(numbers)
    for n, (kind, _, at) in enumerate(all_sent):
        found = [message.physical_offset for message in store.messages_by_key("Orders", f"k{n}")]
        assert found == ([] if kind == TRANSACTION_ROLLBACK else [at.physical_offset])
        data = store.read_record(at.physical_offset)
        assert data is not None
        record = decode(data)
        assert record.sys_flag == kind
        assert record.queue_offset == at.queue_offset == (at.queue_offset if kind in QUEUED else 0)
        assert record.prepared_transaction_offset == (HALF_OFFSET if kind == TRANSACTION_COMMIT else 0)


@pytest.mark.parametrize("settings", [SMALL, SYNC], ids=["async", "sync"])
def test_they_are_dispatched_by_their_kind(open_store: OpenStore, settings: StoreSettings) -> None:
    store = open_store(settings)
    all_sent = sent(store, 120)
    assert store.pointers.dispatched == store.written_offset
    check(store, all_sent)


def kill(_: MessageStore, disk: MemoryDisk) -> MemoryDisk:
    return disk.after_kill()


def close(store: MessageStore, disk: MemoryDisk) -> MemoryDisk:
    store.close()
    return disk.after_kill()


def lose_what_is_derived(store: MessageStore, disk: MemoryDisk) -> MemoryDisk:
    store.close()
    remove(disk, layout.consume_queues_dir(ROOT))
    remove(disk, layout.index_dir(ROOT))
    return disk


def rebuild_it(store: MessageStore, disk: MemoryDisk) -> MemoryDisk:
    lost = lose_what_is_derived(store, disk)
    rebuild(ROOT, SMALL, layer=lost)
    return lost


def remove(disk: MemoryDisk, path: Path) -> None:
    if not disk.is_directory(path):
        disk.remove(path)
        return
    for name in disk.names(path):
        remove(disk, path / name)
    disk.remove_directory(path)


@pytest.mark.parametrize("end", [kill, close, lose_what_is_derived, rebuild_it])
@pytest.mark.parametrize("vouched", [False, True])
def test_a_start_finds_them_as_they_were(
    open_store: OpenStore,
    disk: MemoryDisk,
    clock: ManualClock,
    end: Callable[[MessageStore, MemoryDisk], MemoryDisk],
    *,
    vouched: bool,
) -> None:
    store = open_store()
    all_sent = sent(store, 100)
    if vouched:
        clock.advance(SMALL.flush_consume_queue_thorough_interval)
        paths = store.tick()
        store.sync_files(paths)
        store.vouch(store.dispatched_time)
    state = end(store, disk)
    again = open_store(files=state)
    check(again, all_sent)
    check(again, all_sent + sent(again, 10, first=len(all_sent)))


def test_a_store_of_them_is_sound(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path, SMALL) as store:
        all_sent = sent(store, 120)
    verified = verify(tmp_path, SMALL)
    assert (verified.state, verified.messages, verified.findings) == (State.SOUND, len(all_sent), [])


def test_a_queue_of_nothing_but_prepared_messages_is_none(open_store: OpenStore) -> None:
    store = open_store()
    store.append([new_message(sys_flag=kind) for kind in KINDS if kind not in QUEUED])
    assert store.queues() == []
    assert store.pointers.dispatched == store.written_offset
