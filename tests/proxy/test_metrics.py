from tests.broker.metrics.scraped import ask, scrape
from tests.kit.grpc_clients import consumer, producer
from tests.proxy.conftest import Front

from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.metrics import endpoint_of

LATENCY = "cometmq_proxy_call_latency_milliseconds"


async def test_connections_clients_and_calls_are_shown(front: Front) -> None:
    endpoint = endpoint_of(front.proxy, "127.0.0.1", 0)
    await endpoint.start()
    await front.create_topic("T")
    for topic in ("T", "T", "no"):
        await front.client.call("QueryRoute", pb.QueryRouteRequest(topic=pb.Resource(name=topic)))
    await front.receive("T", "G", 0)
    async with front.client.telemetry(producer("T")), front.other("c-2").telemetry(consumer()):
        found = await scrape(endpoint.address)
    assert found.value("cometmq_proxy_connections", node_type="proxy") == 1
    for kind in ("PRODUCER", "SIMPLE_CONSUMER"):
        assert found.value("cometmq_proxy_clients", client_type=kind) == 1
    assert found.value("cometmq_proxy_calls_total", rpc="QueryRoute", code="OK") == 2
    assert found.value("cometmq_proxy_calls_total", rpc="QueryRoute", code="TOPIC_NOT_FOUND") == 1
    assert found.value(f"{LATENCY}_count") == 3 and found.value(f"{LATENCY}_sum") > 0
    assert (await ask(endpoint.address, "/readyz")).text == "ready\n"
    await endpoint.stop()


async def test_a_call_with_several_answers_counts_without_a_time(front: Front) -> None:
    await front.create_topic("T", queues=1)
    await front.send("T", b"x")
    await front.receive("T", "G", 1)
    counts = front.proxy.counts
    assert counts.by_outcome["ReceiveMessage", pb.OK] == 1 and sum(counts.took) == 1
