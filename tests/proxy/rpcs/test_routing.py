from tests.proxy.conftest import Front

from cometmq.cluster.route import QueueCounts
from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.rpcs.routing import _permissions

HERE = pb.Endpoints(scheme=pb.DOMAIN_NAME, addresses=[pb.Address(host="front.example", port=80)])


async def test_clients_reach_all_queues_where_they_reach_the_proxy(front: Front) -> None:
    await front.create_topic("T", "FIFO", queues=2)
    request = pb.QueryRouteRequest(topic=pb.Resource(name="T"), endpoints=HERE)
    answer = await front.client.call("QueryRoute", request)
    assert answer.status.code == pb.OK
    assert [queue.id for queue in answer.message_queues] == [0, 1]
    for queue in answer.message_queues:
        assert queue.broker.endpoints == HERE and queue.broker.name == "embedded"
        assert queue.permission == pb.READ_WRITE and list(queue.accept_message_types) == [pb.FIFO]


async def test_a_client_that_does_not_say_where_it_connects_gets_the_own_address(front: Front) -> None:
    await front.create_topic("T")
    answer = await front.client.call("QueryRoute", pb.QueryRouteRequest(topic=pb.Resource(name="T")))
    endpoints = answer.message_queues[0].broker.endpoints
    assert endpoints.scheme == pb.IPv4
    assert list(endpoints.addresses) == [pb.Address(host="127.0.0.1", port=front.proxy.port)]


async def test_a_topic_that_does_not_exist_is_not_found_and_not_created(front: Front) -> None:
    for _ in range(2):
        answer = await front.client.call("QueryRoute", pb.QueryRouteRequest(topic=pb.Resource(name="no")))
        assert answer.status.code == pb.TOPIC_NOT_FOUND
        assert "No topic route info in name server for the topic: no" in answer.status.message


def test_queues_are_numbered_by_what_may_be_done_with_them() -> None:
    assert list(_permissions(QueueCounts("b", 3, 2, 6))) == [pb.READ, pb.READ_WRITE, pb.READ_WRITE]
    assert list(_permissions(QueueCounts("b", 1, 2, 6))) == [pb.WRITE, pb.READ_WRITE]
    assert list(_permissions(QueueCounts("b", 2, 2, 4))) == [pb.READ, pb.READ]
    assert list(_permissions(QueueCounts("b", 2, 1, 0))) == [pb.NONE, pb.NONE]


async def test_members_of_a_group_receive_from_whole_brokers(front: Front) -> None:
    await front.create_topic("T")
    request = pb.QueryAssignmentRequest(topic=pb.Resource(name="T"), group=pb.Resource(name="unknown"))
    answer = await front.client.call("QueryAssignment", request)
    assert [one.message_queue.id for one in answer.assignments] == [-1]


async def test_members_of_a_group_in_order_receive_from_each_queue(front: Front) -> None:
    await front.create_topic("T", "FIFO", queues=3)
    await front.create_group("G", consume_message_orderly=True)
    request = pb.QueryAssignmentRequest(topic=pb.Resource(name="T"), group=pb.Resource(name="G"))
    answer = await front.client.call("QueryAssignment", request)
    assert [one.message_queue.id for one in answer.assignments] == [0, 1, 2]
