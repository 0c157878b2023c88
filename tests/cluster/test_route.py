"""From a route to queues and addresses, and whose turn it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.cluster.route import READ, WRITE, QueueCounts, Route, choose_queue, queue_of_key
from cometmq.errors import FormatError
from cometmq.format.layout import QUEUE_COUNT_MAX
from cometmq.message import MessageQueue

ADDRESSES = {"a": {0: "10.0.0.1:10911", 1: "10.0.0.2:10911"}, "b": {1: "10.0.0.3:10911"}}


def route(*counts: QueueCounts) -> Route:
    return Route("Orders", counts, ADDRESSES)


def queues_of(broker_name: str, count: int) -> list[MessageQueue]:
    return [MessageQueue("Orders", broker_name, queue_id) for queue_id in range(count)]


def test_queues_are_those_of_the_counts_by_broker_name() -> None:
    there = route(QueueCounts("b", 1, 9, READ | WRITE), QueueCounts("a", 3, 2, READ | WRITE))
    assert there.subscribe_queues() == queues_of("a", 3) + queues_of("b", 1)
    assert there.publish_queues() == queues_of("a", 2)  # b has no master to write to


def test_a_perm_that_forbids_it_gives_no_queues() -> None:
    assert route(QueueCounts("a", 3, 2, READ)).publish_queues() == []
    assert route(QueueCounts("a", 3, 2, WRITE)).subscribe_queues() == []


def test_a_broker_that_is_not_known_has_no_queues_to_write_to() -> None:
    assert route(QueueCounts("c", 3, 2, READ | WRITE)).publish_queues() == []


def test_messages_are_written_to_the_master_and_read_from_any() -> None:
    there = route()
    assert (there.master("a"), there.any_broker("a")) == ("10.0.0.1:10911", "10.0.0.1:10911")
    assert (there.master("b"), there.any_broker("b")) == (None, "10.0.0.3:10911")
    assert (there.master("c"), there.any_broker("c")) == (None, None)


def test_a_broker_that_is_suggested_but_not_known_has_another_one_in_its_place() -> None:
    there = route()
    assert there.suggested("a", 1) == "10.0.0.2:10911"
    assert there.suggested("a", 2) == there.suggested("a", 0) == "10.0.0.1:10911"
    assert there.suggested("b", 0) == there.suggested("b", 7) == "10.0.0.3:10911"
    assert there.suggested("c", 1) is None


def test_queues_take_turns() -> None:
    queues = queues_of("a", 3)
    assert [choose_queue(queues, turn).queue_id for turn in range(5)] == [0, 1, 2, 0, 1]


@pytest.mark.parametrize(
    ("key", "queue_id"), [("ann", 5), ("order-42", 3), ("", 0), ("polygenelubricants", 2)]
)
def test_a_sharding_key_has_the_queue_that_java_gives_it(key: str, queue_id: int) -> None:
    assert queue_of_key(queues_of("a", 6), key).queue_id == queue_id


def test_a_broker_that_failed_is_passed_over_while_there_are_others() -> None:
    queues = queues_of("a", 2) + queues_of("b", 2)
    assert {choose_queue(queues, turn, {"a"}).broker_name for turn in range(8)} == {"b"}
    assert choose_queue(queues, 1, {"a", "b"}) == queues[1]


@given(
    counts=st.lists(st.integers(0, 4), min_size=1, max_size=4).filter(any),
    avoid=st.sets(st.integers(0, 3)),
    turn=st.integers(0, 2**40),
)
def test_the_chosen_queue_is_one_of_them_and_avoided_only_if_all_are(
    counts: list[int], avoid: set[int], turn: int
) -> None:
    queues = [queue for broker, count in enumerate(counts) for queue in queues_of(str(broker), count)]
    avoided = {str(broker) for broker in avoid}
    chosen = choose_queue(queues, turn, avoided)
    assert chosen in queues
    assert chosen.broker_name not in avoided or all(queue.broker_name in avoided for queue in queues)


@pytest.mark.parametrize(
    ("counts", "says"),
    [
        ([(2**31 - 1, 4)], "2147483647 queues to read on broker 'a', not 0 to 65535"),
        ([(4, 65_536)], "65536 queues to write on broker 'a', not 0 to 65535"),
        ([(4, 4), (-1, 4)], "-1 queues to read on broker 'b', not 0 to 65535"),
        ([(65_535, 1), (1, 65_535), (3, 0)], "131073 queues on all brokers, more than 131072"),
    ],
)
def test_a_route_of_more_queues_than_a_client_can_hold_is_none(
    counts: list[tuple[int, int]], says: str
) -> None:
    queues = [QueueCounts(name, *of, READ | WRITE) for name, of in zip("abc", counts, strict=False)]
    with pytest.raises(FormatError, match=f"topic 'Orders' has {says}: set fewer"):
        route(*queues)
    most = route(QueueCounts("a", QUEUE_COUNT_MAX, 0, READ), QueueCounts("b", 0, QUEUE_COUNT_MAX, WRITE))
    assert len(most.subscribe_queues()) == QUEUE_COUNT_MAX
