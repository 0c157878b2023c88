from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from cometmq.console.lag_history import LagHistory
from cometmq.message import MessageQueue

A, B = (MessageQueue("T", "broker-a", queue_id) for queue_id in (0, 1))


def test_the_last_samples_of_a_group_are_kept() -> None:
    history = LagHistory(samples=3)
    for number in range(5):
        history.add(1_000 * number, {"g": {A: number, B: 10 * number}, "other": {A: 7}})
    found = history.of_group("g")
    assert found.times == [2_000, 3_000, 4_000]
    assert found.queues == {A: [2, 3, 4], B: [20, 30, 40]} and found.total == [22, 33, 44]
    assert found.is_whole
    nobody = history.of_group("nobody")
    assert nobody.times == found.times and nobody.queues == {} and nobody.total == []


def test_a_queue_that_comes_and_goes_is_not_known_in_between() -> None:
    history = LagHistory(samples=4)
    for lags in ({A: 1}, {A: 2, B: 5}, {B: 6}, {}):
        history.add(0, {"g": lags})
    found = history.of_group("g")
    assert found.queues == {A: [1, 2, None, None], B: [None, 5, 6, None]}
    assert found.total == [1, 7, 6, None]


def test_what_no_kept_sample_has_is_forgotten() -> None:
    history = LagHistory(samples=2, queues_max=1)
    history.add(0, {"g": {A: 1}})
    history.add(1, {"other": {A: 1}})
    assert not history.of_group("other").is_whole, "there is no room for its queue"
    history.add(2, {"other": {A: 3}})
    assert history.of_group("g").queues == {}
    other = history.of_group("other")
    assert other.queues == {A: [None, 3]} and other.is_whole


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["g", "h"]), st.dictionaries(st.sampled_from([A, B]), st.integers(0, 9))
        )
    )
)
def test_it_has_what_was_added(added: list[Mapping[str, Mapping[MessageQueue, int]]]) -> None:
    history = LagHistory(samples=3)
    for time_ms, lags in enumerate(added):
        history.add(time_ms, lags)
    last = added[-3:]
    for group in ("g", "h"):
        found = history.of_group(group)
        assert len(found.times) == len(last)
        for queue in (A, B):
            wanted = [lags.get(group, {}).get(queue) for lags in last]
            assert found.queues.get(queue, [None] * len(last)) == wanted
