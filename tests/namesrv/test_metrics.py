import asyncio

from tests.broker.metrics.scraped import ask, scrape
from tests.kit.name_servers import Scene

from cometmq.metrics.limits import LIMITS
from cometmq.namesrv.metrics import endpoint_of


async def test_brokers_topics_and_connections_are_shown() -> None:
    scene = Scene()
    await scene.name_server.start()
    endpoint = endpoint_of(scene.name_server, "127.0.0.1", 0)
    await endpoint.start()
    connections = [await scene.broker("broker-a", "T", "V"), await scene.broker("broker-b", "T", "U")]
    found = await scrape(endpoint.address)
    assert found.value("cometmq_namesrv_brokers", cluster="DefaultCluster", node_type="nameserver") == 2
    assert found.value("cometmq_namesrv_topics") == 3
    assert found.value("cometmq_namesrv_connections") == 2
    assert found.value("cometmq_namesrv_connections_refused_total") == 0
    assert (await ask(endpoint.address, "/readyz")).text == "ready\n"
    for connection in connections:
        await connection.close()
    await endpoint.stop()
    await scene.name_server.stop()


async def test_who_does_not_ask_in_time_is_closed() -> None:
    endpoint = endpoint_of(Scene().name_server, "127.0.0.1", 0, LIMITS._replace(request_ms_max=100))
    await endpoint.start()
    async with asyncio.timeout(60):
        reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
        assert await reader.read() == b""
    writer.close()
    await endpoint.stop()
