"""Which queues a client pops: rules of RocketMQ's broker."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.cluster.assignment import STRATEGIES, popped_queues
from cometmq.cluster.rebalance import averagely
from cometmq.message import MessageQueue

ALL_OF_BOTH = [MessageQueue("T", "a", -1), MessageQueue("T", "b", -1)]

names = st.sampled_from(sorted(STRATEGIES))
queue_lists = st.lists(
    st.builds(MessageQueue, st.just("T"), st.sampled_from("abc"), st.integers(0, 9)), unique=True
).map(sorted)
groups = st.lists(st.text("xyz@.1", min_size=1), unique=True, min_size=1).map(sorted)


def queues_of(count: int) -> list[MessageQueue]:
    return sorted(MessageQueue("T", "ab"[n % 2], n // 2) for n in range(count))


def clients_of(count: int) -> list[str]:
    return [f"client{n:03}" for n in range(count)]


def shares(queue_count: int, client_count: int, share_count: int) -> list[list[int]]:
    """Return the places of the queues that each client pops."""
    queues, clients = queues_of(queue_count), clients_of(client_count)
    popped = (popped_queues(client, queues, clients, averagely, share_count) for client in clients)
    return [[queues.index(queue) for queue in share] for share in popped]


@given(names, queue_lists, groups)
def test_every_queue_is_pulled_by_exactly_one_client(
    name: str, queues: list[MessageQueue], clients: list[str]
) -> None:
    owned = Counter(queue for client in clients for queue in STRATEGIES[name](client, queues, clients))
    assert owned == Counter(queues)


@given(names, queue_lists, groups, st.integers(-2, 40))
def test_every_queue_is_popped_and_by_no_more_clients_than_share_it(
    name: str, queues: list[MessageQueue], clients: list[str], share_count: int
) -> None:
    readers: Counter[MessageQueue] = Counter()
    for client in clients:
        popped = popped_queues(client, queues, clients, STRATEGIES[name], share_count)
        assert len(set(popped)) == len(popped)
        readers.update(popped)
    if share_count <= 0 or share_count >= len(clients) - 1:
        whole = (MessageQueue("T", queue.broker_name, -1) for queue in queues)
        assert readers == dict.fromkeys(whole, len(clients))
    elif len(clients) <= len(queues):
        assert readers == dict.fromkeys(queues, share_count + 1)
    else:
        assert readers.keys() == set(queues) and readers.total() == (len(clients) if queues else 0)


@pytest.mark.parametrize("share_count", [-1, 0, 3, 9])
def test_a_group_that_shares_all_pops_each_broker_as_a_whole(share_count: int) -> None:
    clients = clients_of(4)
    for client in [*clients, "stranger"]:
        assert popped_queues(client, queues_of(6), clients, averagely, share_count) == ALL_OF_BOTH


def test_a_client_pops_its_share_and_those_of_the_next_clients() -> None:
    assert shares(8, 4, 1) == [[0, 1, 2, 3], [2, 3, 4, 5], [4, 5, 6, 7], [6, 7, 0, 1]]
    assert shares(8, 4, 2) == [
        [0, 1, 2, 3, 4, 5],
        [2, 3, 4, 5, 6, 7],
        [4, 5, 6, 7, 0, 1],
        [6, 7, 0, 1, 2, 3],
    ]


def test_more_clients_than_queues_pop_one_queue_each() -> None:
    assert shares(3, 5, 1) == [[0], [1], [2], [0], [1]]


def test_a_client_that_is_no_member_pops_nothing() -> None:
    assert popped_queues("stranger", queues_of(8), clients_of(4), averagely, 1) == []
    assert popped_queues("stranger", queues_of(2), clients_of(4), averagely, 1) == []
