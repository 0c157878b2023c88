from cometmq.broker.locks import LOCK_LIFETIME_MS, QueueLocks
from cometmq.io.clock import ManualClock
from cometmq.message import MessageQueue

Q0, Q1 = MessageQueue("T", "b", 0), MessageQueue("T", "b", 1)


def test_a_queue_belongs_to_one_client_of_a_group() -> None:
    locks = QueueLocks(ManualClock())
    assert locks.lock("g", "a", [Q0]) == [Q0]
    assert locks.lock("g", "b", [Q0, Q1]) == [Q1]
    assert locks.lock("other", "b", [Q0]) == [Q0]


def test_its_owner_may_take_it_again_and_so_keep_it() -> None:
    clock = ManualClock()
    locks = QueueLocks(clock)
    locks.lock("g", "a", [Q0])
    clock.advance(LOCK_LIFETIME_MS)
    assert locks.lock("g", "a", [Q0]) == [Q0]
    clock.advance(LOCK_LIFETIME_MS)
    assert locks.lock("g", "b", [Q0]) == []
    clock.advance(1)
    assert not locks.is_orderly("g")
    assert locks.lock("g", "b", [Q0]) == [Q0]


def test_only_the_owner_can_unlock() -> None:
    locks = QueueLocks(ManualClock())
    locks.lock("g", "a", [Q0, Q1])
    locks.unlock("g", "b", [Q0])
    assert locks.lock("g", "b", [Q0]) == []
    locks.unlock("g", "a", [Q0])
    assert locks.lock("g", "b", [Q0]) == [Q0]


def test_a_group_is_orderly_while_it_holds_a_lock() -> None:
    locks = QueueLocks(ManualClock())
    assert not locks.is_orderly("g")
    locks.lock("g", "a", [Q0])
    assert locks.is_orderly("g")
    locks.unlock("g", "a", [Q0])
    assert not locks.is_orderly("g")
