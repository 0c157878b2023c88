from pathlib import Path

from cometmq.broker.state.locks import LOCK_LIFETIME_MS, QueueLocks
from cometmq.io.clock import ManualClock
from cometmq.io.files import Disk
from cometmq.message import MessageQueue
from cometmq.store.tables import JsonTable

Q0, Q1 = MessageQueue("T", "b", 0), MessageQueue("T", "b", 1)


def locks_of(clock: ManualClock, directory: Path) -> QueueLocks:
    locks = QueueLocks(JsonTable(Disk(), directory / "queueLocks.json"), clock)
    locks.load()
    return locks


def test_a_queue_belongs_to_one_client_of_a_group(tmp_path: Path) -> None:
    locks = locks_of(ManualClock(), tmp_path)
    assert locks.lock("g", "a", [Q0]) == [Q0]
    assert locks.lock("g", "b", [Q0, Q1]) == [Q1]
    assert locks.lock("other", "b", [Q0]) == [Q0]


def test_its_owner_may_take_it_again_and_so_keep_it(tmp_path: Path) -> None:
    clock = ManualClock()
    locks = locks_of(clock, tmp_path)
    locks.lock("g", "a", [Q0])
    clock.advance(LOCK_LIFETIME_MS)
    assert locks.lock("g", "a", [Q0]) == [Q0]
    clock.advance(LOCK_LIFETIME_MS)
    assert locks.lock("g", "b", [Q0]) == []
    clock.advance(1)
    assert not locks.is_orderly("g")
    assert locks.lock("g", "b", [Q0]) == [Q0]


def test_only_the_owner_can_unlock(tmp_path: Path) -> None:
    locks = locks_of(ManualClock(), tmp_path)
    locks.lock("g", "a", [Q0, Q1])
    locks.unlock("g", "b", [Q0])
    assert locks.lock("g", "b", [Q0]) == []
    locks.unlock("g", "a", [Q0])
    assert locks.lock("g", "b", [Q0]) == [Q0]


def test_a_group_is_orderly_while_it_holds_a_lock(tmp_path: Path) -> None:
    locks = locks_of(ManualClock(), tmp_path)
    assert not locks.is_orderly("g")
    locks.lock("g", "a", [Q0])
    assert locks.is_orderly("g")
    locks.unlock("g", "a", [Q0])
    assert not locks.is_orderly("g")


def test_locks_outlive_the_broker_and_expire_after_it(tmp_path: Path) -> None:
    locks = locks_of(ManualClock(), tmp_path)
    locks.lock("g", "a", [Q0])
    locks.lock("g", "b", [Q1])
    locks.unlock("g", "b", [Q1])
    locks.save()
    clock = ManualClock()
    again = locks_of(clock, tmp_path)
    assert again.lock("g", "b", [Q0, Q1]) == [Q1]
    assert again.lock("g", "a", [Q0]) == [Q0]
    clock.advance(LOCK_LIFETIME_MS + 1)
    assert again.lock("g", "b", [Q0]) == [Q0]


def test_only_a_change_of_owner_is_written_and_what_expired_is_not(tmp_path: Path) -> None:
    clock = ManualClock()
    locks = locks_of(clock, tmp_path)
    locks.lock("g", "a", [Q0])
    assert locks.changed
    locks.save()
    locks.lock("g", "a", [Q0])
    locks.unlock("g", "b", [Q0])
    assert not locks.changed
    clock.advance(LOCK_LIFETIME_MS + 1)
    locks.lock("g", "b", [Q1])
    locks.save()
    assert locks_of(ManualClock(), tmp_path).lock("g", "c", [Q0, Q1]) == [Q0]


def test_two_users_clients_of_one_id_are_two_also_after_a_restart(tmp_path: Path) -> None:
    locks = locks_of(ManualClock(), tmp_path)
    assert locks.lock("g", "a", [Q0], "ann") == [Q0]
    assert locks.lock("g", "a", [Q0, Q1], "bob") == [Q1]
    locks.unlock("g", "a", [Q0], "bob")
    locks.save()
    again = locks_of(ManualClock(), tmp_path)
    assert again.lock("g", "a", [Q0, Q1], "bob") == [Q1]
    assert again.lock("g", "a", [Q0, Q1]) == []
    assert again.lock("g", "a", [Q0, Q1], "ann") == [Q0]


def test_an_id_with_a_line_break_is_no_users(tmp_path: Path) -> None:
    locks = locks_of(ManualClock(), tmp_path)
    assert locks.lock("g", "a\nann", [Q0]) == [Q0]
    locks.save()
    again = locks_of(ManualClock(), tmp_path)
    assert again.lock("g", "a", [Q0], "ann") == []
    assert again.lock("g", "a\nann", [Q0]) == [Q0]
