from collections import Counter
from math import ceil

from hypothesis import given
from hypothesis import strategies as st

from cometmq.message import MessageQueue
from cometmq.spark.live.limits import FairLimits
from cometmq.spark.live.offsets import Offsets

QUEUES = [MessageQueue("t", "b", number) for number in range(5)]
COUNTS = st.lists(st.integers(0, 1000), min_size=5, max_size=5)


@given(COUNTS, st.integers(1, 3000))
def test_no_more_is_admitted_than_the_limit_and_no_less_than_there_is(counts: list[int], most: int) -> None:
    begins = dict.fromkeys(QUEUES, 10)
    ends = {queue: 10 + count for queue, count in zip(QUEUES, counts, strict=True)}
    admitted = FairLimits().admit(begins, ends, most)
    assert sum(admitted[queue] - 10 for queue in QUEUES) == min(most, sum(counts))
    assert all(10 <= admitted[queue] <= ends[queue] for queue in QUEUES)


@given(COUNTS, st.integers(5, 3000))
def test_each_queue_with_news_gets_some_where_the_limit_allows_one_each(counts: list[int], most: int) -> None:
    begins = dict.fromkeys(QUEUES, 0)
    ends = dict(zip(QUEUES, counts, strict=True))
    admitted = FairLimits().admit(begins, ends, most)
    assert [queue for queue in QUEUES if admitted[queue]] == [queue for queue in QUEUES if ends[queue]]


def test_shares_are_in_proportion() -> None:
    begins = dict.fromkeys(QUEUES[:3], 0)
    ends = dict(zip(QUEUES, (900, 100, 1), strict=False))
    admitted = FairLimits().admit(begins, ends, 100)
    assert admitted == dict(zip(QUEUES, (89, 10, 1), strict=False))


def test_sizes_count_and_one_message_always_fits() -> None:
    begins = dict.fromkeys(QUEUES[:2], 0)
    ends = dict.fromkeys(QUEUES[:2], 100)
    assert FairLimits().admit(begins, ends, 1000, lambda queue: 10.0 if queue == QUEUES[0] else 30.0) == {
        QUEUES[0]: 25,
        QUEUES[1]: 25,
    }
    assert FairLimits().admit(begins, ends, 5, lambda _: 10.0) == {QUEUES[0]: 1, QUEUES[1]: 0}
    assert FairLimits().admit(begins, begins, 5, lambda _: 10.0) == begins


def test_a_backlog_in_one_queue_keeps_nobody_waiting() -> None:
    queues = [MessageQueue("t", "b", number) for number in range(8)]
    begins = dict.fromkeys(queues, 0)
    ends = begins | {queues[0]: 1_000_000}
    limits = FairLimits()
    for _ in range(500):
        ends |= {queue: ends[queue] + 1 for queue in queues[1:]}
        begins = begins | limits.admit(begins, ends, 100)
        assert all(begins[queue] == ends[queue] for queue in queues[1:])
    assert begins[queues[0]] == 500 * 93


def test_what_rounding_leaves_over_rotates() -> None:
    begins, limits = dict.fromkeys(QUEUES, 0), FairLimits()
    for _ in range(len(QUEUES)):
        begins = begins | limits.admit(begins, dict.fromkeys(QUEUES, 10_000), len(QUEUES) + 1)
    assert set(begins.values()) == {len(QUEUES) + 1}


@given(st.data(), st.integers(2, 12), st.integers(1, 14))
def test_nobody_waits_longer_than_one_turn_through_the_line(
    data: st.DataObject, count: int, most: int
) -> None:
    queues = [MessageQueue("t", "b", number) for number in range(count)]
    begins: Offsets = dict.fromkeys(queues, 0)
    ends: Offsets = dict.fromkeys(queues, 0)
    limits, waited = FairLimits(), Counter[MessageQueue]()
    for _ in range(30):
        news = data.draw(st.lists(st.sampled_from([0, 0, 1, 5, 1_000]), min_size=count, max_size=count))
        ends = {queue: ends[queue] + more for queue, more in zip(queues, news, strict=True)}
        admitted = limits.admit(begins, ends, most)
        for queue in queues:
            is_left_out = ends[queue] > begins[queue] == admitted[queue]
            waited[queue] = waited[queue] + 1 if is_left_out else 0
        assert max(waited.values()) < ceil(count / most)
        begins = admitted
