from hypothesis import given
from hypothesis import strategies as st

from cometmq.proxy.messages.message_groups import bucket_of


@given(st.text(), st.integers(1, 64))
def test_a_group_has_one_of_the_queues(group: str, count: int) -> None:
    assert 0 <= bucket_of(group, count) < count


@given(st.text(), st.integers(1, 64))
def test_a_further_queue_moves_a_group_only_there(group: str, count: int) -> None:
    assert bucket_of(group, count + 1) in (bucket_of(group, count), count)


def test_groups_are_spread() -> None:
    counts = [0] * 8
    for number in range(8000):
        counts[bucket_of(f"group-{number}", 8)] += 1
    assert min(counts) > 500
