import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.errors import FormatError
from cometmq.format.pop.names import RetryFlag
from cometmq.format.pop.offset_info import (
    PoppedQueue,
    encode_begin_offsets,
    encode_offsets,
    encode_order_counts,
    parse_begin_offsets,
    parse_offsets,
    parse_order_counts,
)

OFFSETS = st.lists(st.integers(0, 2**62), min_size=1, max_size=32, unique=True).map(tuple)
QUEUES = st.lists(
    st.builds(PoppedQueue, st.sampled_from(RetryFlag), st.integers(0, 9), st.integers(0, 2**62), OFFSETS),
    unique_by=lambda one: (one.retry_flag, one.queue_id),
    max_size=8,
)


def test_the_lists_are_written_as_a_java_broker_writes_them() -> None:
    queues = [PoppedQueue(RetryFlag.NONE, 0, 0, (0, 1)), PoppedQueue(RetryFlag.NONE, 1, 4, (4,))]
    assert encode_begin_offsets(queues) == "0 0 0;0 1 4"
    assert encode_offsets(queues) == "0 0 0,1;0 1 4"
    counted = PoppedQueue(RetryFlag.NONE, 0, 7, (7, 8))
    assert encode_order_counts({counted: {7: 1}}) == "0 qo0%7 1;0 0 0"
    assert encode_order_counts({counted: {7: 1, 8: 2}}) == "0 qo0%7 1;0 qo0%8 2;0 0 1"


@given(QUEUES)
def test_lists_are_decoded_as_they_were(queues: list[PoppedQueue]) -> None:
    assert parse_begin_offsets(encode_begin_offsets(queues)) == {one[:2]: one.begin_offset for one in queues}
    assert parse_offsets(encode_offsets(queues)) == {one[:2]: one.offsets for one in queues}


def test_counts_are_decoded_by_queue_and_by_offset() -> None:
    by_queue, by_offset = parse_order_counts("0 qo0%7 1;0 0 0")
    assert by_queue == {(RetryFlag.NONE, 0): 0}
    assert by_offset == {(RetryFlag.NONE, 0, 7): 1}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("0 0", "has 2 tokens instead of 3"),
        ("0 0 0 0", "has 4 tokens instead of 3"),
        ("0 0 0;0 0 1", "queue '0' with flag '0' comes twice"),
        ("3 0 0", "does not begin with a retry flag"),
        ("0 x 0", "'x' in '0 x 0' is no number"),
        ("0 0 x", "'x' in '0 0 x' is no number"),
    ],
)
def test_other_texts_are_refused(text: str, why: str) -> None:
    with pytest.raises(FormatError, match=why):
        parse_begin_offsets(text)
