"""Who gets which queues: what Java clients get, nothing twice and nothing forgotten."""

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.cluster.rebalance import (
    ByConfig,
    ConsistentHash,
    MachineRoom,
    MachineRoomNearby,
    Strategy,
    averagely,
    by_circle,
)
from cometmq.message import MessageQueue

GOLDEN = Path(__file__).parents[1] / "golden" / "rebalance.json"
BROKERS = ("r1@a", "r1@b", "r2@c")


def room_of(name: str) -> str:
    return name.split("@", maxsplit=1)[0]


NEARBY = MachineRoomNearby(averagely, room_of, room_of)
STRATEGIES: dict[str, Strategy] = {
    "averagely": averagely,
    "by_circle": by_circle,
    "consistent_hash": ConsistentHash(),
    "machine_room": MachineRoom(frozenset({"r1"})),
    "machine_room_nearby": NEARBY,
}
WHOLE = ["averagely", "by_circle", "consistent_hash", "machine_room_nearby"]
"""The strategies that leave no queue out."""


def queues_of(count: int) -> list[MessageQueue]:
    return sorted(MessageQueue("Topic", BROKERS[n % 3], n // 3) for n in range(count))


def clients_of(count: int) -> list[str]:
    return [f"r{1 + n % 2}@10.0.0.{n}@{4000 + n}" for n in range(count)]


@pytest.mark.parametrize("name", STRATEGIES)
def test_shares_are_those_that_java_clients_work_out(name: str) -> None:
    golden = json.loads(GOLDEN.read_text())[name]
    assert len(golden) == 70
    for case, expected in golden.items():
        queue_count, _, client_count, _ = case.split()
        queues, clients = queues_of(int(queue_count)), clients_of(int(client_count))
        shares = [STRATEGIES[name](client, queues, clients) for client in clients]
        assert [[queues.index(queue) for queue in share] for share in shares] == expected, case


@pytest.mark.parametrize("name", WHOLE)
@given(queue_count=st.integers(0, 60), client_count=st.integers(1, 12))
def test_each_queue_has_one_owner(name: str, queue_count: int, client_count: int) -> None:
    queues, clients = queues_of(queue_count), clients_of(client_count)
    owned = Counter(queue for client in clients for queue in STRATEGIES[name](client, queues, clients))
    assert owned == Counter(queues)


@pytest.mark.parametrize("strategy", [averagely, by_circle])
@given(queue_count=st.integers(0, 200), client_count=st.integers(1, 70))
def test_shares_differ_by_one_queue_at_most(strategy: Strategy, queue_count: int, client_count: int) -> None:
    queues, clients = queues_of(queue_count), clients_of(client_count)
    sizes = [len(strategy(client, queues, clients)) for client in clients]
    assert max(sizes) - min(sizes) <= 1


@given(queue_count=st.integers(0, 100), client_count=st.integers(2, 20), gone=st.integers(0))
def test_on_the_ring_only_the_queues_of_a_member_that_goes_are_moved(
    queue_count: int, client_count: int, gone: int
) -> None:
    queues, clients = queues_of(queue_count), clients_of(client_count)
    left = [client for client in clients if client != clients[gone % client_count]]
    ring = ConsistentHash()
    for client in left:
        assert set(ring(client, queues, clients)) <= set(ring(client, queues, left))


def test_who_is_no_member_gets_nothing() -> None:
    for strategy in STRATEGIES.values():
        assert strategy("stranger@x", queues_of(8), clients_of(3)) == []


def test_by_config_gives_what_is_configured_whatever_there_is() -> None:
    own = tuple(queues_of(2))
    assert ByConfig(own)("c", [], []) == list(own)
