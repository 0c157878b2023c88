"""Acknowledgements: what enough slaves have, and how many are in sync."""

from cometmq.replication.acks import NOTHING, SlaveAcks


def acks_of(awaited: int, end: int = 100) -> SlaveAcks:
    return SlaveAcks(awaited, 50, lambda: end)


def test_what_is_replicated_is_what_enough_slaves_have() -> None:
    acks = acks_of(2)
    acks.put("a", 30)
    assert acks.replicated_offset == NOTHING
    acks.put("b", 70)
    assert acks.replicated_offset == 30
    acks.put("c", 60)
    assert acks.replicated_offset == 60
    acks.remove("b")
    assert acks.replicated_offset == 30


def test_if_nobody_is_awaited_all_is_replicated() -> None:
    assert acks_of(0).replicated_offset == 100


def test_a_slave_in_sync_lags_behind_by_less_than_the_gap() -> None:
    acks = acks_of(1)
    acks.put("new")
    acks.put("far", 50)
    acks.put("near", 51)
    assert acks.in_sync_count == 1
    assert acks.is_in_sync(51) and not acks.is_in_sync(50) and not acks.is_in_sync(NOTHING)


def test_who_listens_is_called_at_each_change_and_for_nobody_unknown() -> None:
    acks, calls = acks_of(1), []
    acks.on_change.append(lambda: calls.append(dict(acks.by_slave)))
    acks.put("a")
    acks.put("a", 5)
    acks.remove("a")
    acks.remove("a")
    assert calls == [{"a": NOTHING}, {"a": 5}, {}]
