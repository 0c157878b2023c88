"""Which brokers are left alone, for how long, and what is chosen then."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.cluster.fault import BrokerFaults, unavailable_ms
from cometmq.message import MessageQueue

QUEUES = [MessageQueue("Orders", name, queue_id) for name in "abc" for queue_id in range(2)]


@pytest.mark.parametrize(
    ("latency_ms", "expected_ms"),
    [
        (0, 0),
        (49, 0),
        (50, 0),
        (549, 0),
        (550, 2_000),
        (1_799, 2_000),
        (1_800, 5_000),
        (3_000, 6_000),
        (10_000, 10_000),
        (15_000, 30_000),
        (99_999, 30_000),
    ],
)
def test_the_slower_a_broker_the_longer_it_is_left_alone(latency_ms: int, expected_ms: int) -> None:
    assert unavailable_ms(latency_ms) == expected_ms


def chosen(faults: BrokerFaults, now_ms: int, failed: frozenset[str] = frozenset()) -> set[str]:
    return {faults.choose(QUEUES, turn, failed, now_ms).broker_name for turn in range(len(QUEUES))}


def test_all_brokers_take_turns_while_nothing_is_known() -> None:
    assert [BrokerFaults().choose(QUEUES, turn, set(), 0) for turn in range(8)] == QUEUES + QUEUES[:2]


def test_a_slow_broker_comes_back_when_its_time_has_passed() -> None:
    faults = BrokerFaults()
    faults.record_success("a", 600, now_ms=1_000)
    faults.record_success("a", 1, now_ms=1_001)  # takes nothing back
    assert chosen(faults, 2_999) == {"b", "c"}
    assert chosen(faults, 3_000) == {"a", "b", "c"}


def test_a_failed_broker_is_left_alone_for_ten_seconds() -> None:
    faults = BrokerFaults()
    faults.record_failure("a", 0, refused=False)
    faults.record_failure("b", 0, refused=True)
    assert chosen(faults, 9_999) == {"c"}
    assert chosen(faults, 10_000) == {"a", "b", "c"}


def test_if_all_are_away_one_that_only_was_slow_is_better_than_one_that_refused() -> None:
    faults = BrokerFaults()
    faults.record_failure("a", 0, refused=True)
    faults.record_failure("b", 0, refused=False)
    faults.record_success("c", 20_000, 0)
    assert chosen(faults, 1) == {"b", "c"}
    assert chosen(faults, 1, frozenset("b")) == {"c"}
    assert chosen(faults, 1, frozenset("bc")) == {"a", "b", "c"}
    faults.record_success("a", 1, 0)
    assert chosen(faults, 1) == {"a", "b", "c"}


@given(
    notes=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 20_000), st.booleans()), max_size=20),
    failed=st.frozensets(st.sampled_from("abc")),
    turn=st.integers(0, 2**40),
)
def test_some_queue_is_always_chosen_and_an_available_one_if_there_is(
    notes: list[tuple[str, int, bool]], failed: frozenset[str], turn: int
) -> None:
    faults = BrokerFaults()
    now_ms = 0
    for name, latency_ms, fails in notes:
        now_ms += latency_ms
        if fails:
            faults.record_failure(name, now_ms, refused=bool(latency_ms % 2))
        else:
            faults.record_success(name, latency_ms, now_ms)
    queue = faults.choose(QUEUES, turn, failed, now_ms)
    fit = {name for name in "abc" if faults.is_available(name, now_ms)} - failed
    assert queue in QUEUES
    assert queue.broker_name in fit or not fit
