from hypothesis import given
from hypothesis import strategies as st

from cometmq.cluster.assignment import STRATEGIES, popped_queues
from cometmq.message import MessageQueue

QUEUES = [MessageQueue("T", broker, queue_id) for broker in ("a", "b") for queue_id in range(4)]
CLIENTS = [f"c{number}" for number in range(4)]


def test_by_default_each_member_pops_all_queues_of_each_broker() -> None:
    every = [MessageQueue("T", "a", -1), MessageQueue("T", "b", -1)]
    for share_count in (-1, 0, 3, 8):
        assert popped_queues("c0", QUEUES, CLIENTS, STRATEGIES["AVG"], share_count) == every


def test_with_a_share_count_a_member_pops_those_of_its_neighbours_too() -> None:
    found = popped_queues("c3", QUEUES, CLIENTS, STRATEGIES["AVG"], 1)
    assert found == [MessageQueue("T", "b", 2), MessageQueue("T", "b", 3), *QUEUES[:2]]


def test_more_members_than_queues_share_them_in_turn() -> None:
    clients = [f"c{number:02}" for number in range(10)]
    found = popped_queues("c09", QUEUES, clients, STRATEGIES["AVG"], 2)
    assert found == [QUEUES[1]]


def test_a_client_that_is_no_member_pops_nothing_of_shared_queues() -> None:
    assert popped_queues("other", QUEUES, CLIENTS, STRATEGIES["AVG"], 1) == []


@given(
    queue_count=st.integers(1, 12),
    client_count=st.integers(1, 12),
    share_count=st.integers(-1, 12),
    name=st.sampled_from(sorted(STRATEGIES)),
)
def test_each_queue_is_popped_by_somebody(
    queue_count: int, client_count: int, share_count: int, name: str
) -> None:
    queues = [MessageQueue("T", "a", queue_id) for queue_id in range(queue_count)]
    clients = [f"c{number:02}" for number in range(client_count)]
    found = {
        queue
        for client in clients
        for queue in popped_queues(client, queues, clients, STRATEGIES[name], share_count)
    }
    assert found in ({MessageQueue("T", "a", -1)}, set(queues))
