from hypothesis import given
from hypothesis import strategies as st

from cometmq.message import MessageQueue
from cometmq.spark.live.ranges import QueueRange, split

QUEUES = [MessageQueue("t", "b", number) for number in range(4)]
RANGES = st.lists(
    st.tuples(st.sampled_from(QUEUES), st.integers(0, 50), st.integers(1, 200)).map(
        lambda drawn: QueueRange(drawn[0], drawn[1], drawn[1] + drawn[2])
    ),
    max_size=6,
)


@given(RANGES, st.integers(1, 60))
def test_every_message_is_in_one_part_and_all_parts_but_the_last_are_full(
    ranges: list[QueueRange], most: int
) -> None:
    parts = split(ranges, lambda _: most)
    given_out = [
        (one.queue, offset) for part in parts for one in part for offset in range(one.start, one.end)
    ]
    assert given_out == [(one.queue, offset) for one in ranges for offset in range(one.start, one.end)]
    sizes = [sum(one.size for one in part) for part in parts]
    assert all(size == most for size in sizes[:-1]) and all(0 < size <= most for size in sizes[-1:])


def test_queues_of_large_messages_have_smaller_parts() -> None:
    first, second = QueueRange(QUEUES[0], 0, 4), QueueRange(QUEUES[1], 0, 40)
    parts = split([first, second], lambda queue: 4 if queue == QUEUES[0] else 20)
    assert [[one.size for one in part] for part in parts] == [[4], [20], [20]]
    assert [len(part) for part in split([first, second], lambda _: 100)] == [2]


def test_a_range_says_what_it_is() -> None:
    assert str(QueueRange(QUEUES[1], 5, 8)) == "topic t, broker b, queue 1, offsets 5 to 7"
    assert str(QueueRange(QUEUES[1], 5, 6)) == "topic t, broker b, queue 1, offset 5"
