import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.cluster.pop.choice import RANDOM_MAX, RetryRules, queue_order
from cometmq.format.pop.names import RetryFlag


@given(st.integers(0, 40), st.integers(0, RANDOM_MAX - 1))
def test_queues_are_visited_as_rocketmq_visits_them_each_once(count: int, random: int) -> None:
    expected = [(count - 1 - turn + random) % count for turn in range(count)]
    assert list(queue_order(count, random)) == expected
    assert sorted(expected) == list(range(count))


def test_a_fifth_of_the_pops_reads_the_retry_topic_first() -> None:
    rules = RetryRules()
    assert [random for random in range(RANDOM_MAX) if rules.is_retry_first(random)] == list(range(20))


@pytest.mark.parametrize(
    ("rules", "even", "odd"),
    [
        (RetryRules(), RetryFlag.V1, RetryFlag.V1),
        (RetryRules(is_v2=True), RetryFlag.V1, RetryFlag.V2),
        (RetryRules(is_v2=True, reads_v1=False), RetryFlag.V2, RetryFlag.V2),
    ],
)
def test_one_pop_reads_retry_topics_of_one_version(
    rules: RetryRules, even: RetryFlag, odd: RetryFlag
) -> None:
    assert (rules.flag(18), rules.flag(19)) == (even, odd)
