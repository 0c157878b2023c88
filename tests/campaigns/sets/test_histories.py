"""Histories of partitions: the same for a seed, and about hosts that there are."""

from hypothesis import given
from hypothesis import strategies as st
from tests.campaigns.sets.histories import Kind, Size, draw


@given(st.integers(0, 2**32), st.integers(2, 5))
def test_a_seed_draws_one_history_of_hosts_that_there_are(seed: int, brokers: int) -> None:
    size = Size(brokers=brokers, steps=6)
    steps = draw(seed, size)
    assert steps == draw(seed, size)
    assert len(steps) == 6
    for step in steps:
        assert {step.one, step.other} <= set(range(brokers + 1))
        assert step.one != step.other
        assert step.kind is Kind.DEAFEN or step.one < brokers, "the controller is never killed or stopped"
        assert step.text([str(host) for host in range(brokers + 1)])
