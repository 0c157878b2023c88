from hypothesis import given
from hypothesis import strategies as st

from cometmq.message import MessageQueue
from cometmq.spark.live.limits import admit

QUEUES = [MessageQueue("t", "b", number) for number in range(5)]
COUNTS = st.lists(st.integers(0, 1000), min_size=5, max_size=5)


@given(COUNTS, st.integers(1, 3000))
def test_no_more_is_admitted_than_the_limit_and_no_less_than_there_is(counts: list[int], most: int) -> None:
    begins = dict.fromkeys(QUEUES, 10)
    ends = {queue: 10 + count for queue, count in zip(QUEUES, counts, strict=True)}
    admitted = admit(begins, ends, most)
    assert sum(admitted[queue] - 10 for queue in QUEUES) == min(most, sum(counts))
    assert all(10 <= admitted[queue] <= ends[queue] for queue in QUEUES)


def test_shares_are_in_proportion_and_no_queue_is_left_out() -> None:
    begins = dict.fromkeys(QUEUES[:3], 0)
    ends = dict(zip(QUEUES, (900, 100, 1), strict=False))
    assert admit(begins, ends, 100) == dict(zip(QUEUES, (89, 9, 1), strict=False)) | {QUEUES[1]: 10}


def test_sizes_count_and_one_message_always_fits() -> None:
    begins = dict.fromkeys(QUEUES[:2], 0)
    ends = dict.fromkeys(QUEUES[:2], 100)
    assert admit(begins, ends, 1000, lambda queue: 10.0 if queue == QUEUES[0] else 30.0) == {
        QUEUES[0]: 25,
        QUEUES[1]: 25,
    }
    assert admit(begins, ends, 5, lambda _: 10.0) == {QUEUES[0]: 1, QUEUES[1]: 0}
    assert admit(begins, begins, 5, lambda _: 10.0) == begins
