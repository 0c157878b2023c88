import json
import signal
from pathlib import Path

from grpclib.client import Channel
from tests.cli.conftest import Process, Run
from tests.proxy.conftest import GrpcClient

from cometmq.net.address import parse_address
from cometmq.proxy import messaging_pb2 as pb
from cometmq.testing.embedded_broker import EmbeddedBroker


async def test_it_serves_the_brokers_of_a_name_server_until_a_signal(rocketmq: EmbeddedBroker) -> None:
    rocketmq.create_topic("T", 1)
    with Process("proxy", "--port", "0", "--namesrv", rocketmq.name_server, "--json") as process:
        ready = json.loads(process.line())
        assert ready["name_servers"] == rocketmq.name_server
        assert ready["proxy"] == f"127.0.0.1:{ready['proxy_port']}"
        async with Channel(*parse_address(ready["proxy"])) as channel:
            client = GrpcClient(channel, {"x-mq-client-id": "c"})
            request = pb.QueryRouteRequest(topic=pb.Resource(name="T"))
            answer = await client.call("QueryRoute", request)
        assert answer.status.code == pb.OK and len(answer.message_queues) == 1
        assert process.kill(signal.SIGTERM).code == 0


def test_a_port_that_is_taken_is_one_line(cometmq: Run, rocketmq: EmbeddedBroker) -> None:
    port = rocketmq.name_server.rpartition(":")[2]
    ran = cometmq("proxy", "--port", port, "--namesrv", rocketmq.name_server)
    assert ran.code == 2
    assert ran.err.splitlines()[-1].startswith(f"error: proxy: cannot listen on 127.0.0.1:{port}: another ")


def test_a_setting_that_a_proxy_does_not_have_stops_the_start(cometmq: Run, tmp_path: Path) -> None:
    path = tmp_path / "proxy.conf"
    path.write_text("callMax=1\n")
    ran = cometmq("proxy", "--port", "0", "--config", str(path))
    assert ran.code == 2
    assert f"settings file {path}: a proxy has no setting callMax" in ran.err
