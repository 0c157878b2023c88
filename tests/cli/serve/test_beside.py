"""The gRPC proxy and the console that ``cometmq dev`` starts as its children."""

import asyncio
import json
import signal
import urllib.request
from pathlib import Path
from typing import Any

from grpclib.client import Channel
from tests.cli.conftest import Process, Run
from tests.proxy.conftest import GrpcClient

from cometmq.net.address import parse_address
from cometmq.proxy import messaging_pb2 as pb

PATIENCE_S = 60


def dev(tmp_path: Path, *options: str) -> Process:
    where = ("--port", "0", "--store", str(tmp_path / "store"), "--json")
    return Process("dev", *where, "--grpc-port", "0", *options)


async def route(address: str) -> pb.Status:
    async with Channel(*parse_address(address)) as channel:
        request = pb.QueryRouteRequest(topic=pb.Resource(name="T"))
        answer = await GrpcClient(channel, {"x-mq-client-id": "c"}).call("QueryRoute", request)
    status: pb.Status = answer.status
    return status


async def is_gone(address: str) -> bool:
    """Wait until nobody listens at an address any more."""
    host, port = parse_address(address)
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                _, writer = await asyncio.open_connection(host, port)
            except ConnectionRefusedError:
                return True
            writer.close()
            await asyncio.sleep(0.05)


def test_clients_by_grpc_are_served_until_a_signal(cometmq: Run, tmp_path: Path) -> None:
    with dev(tmp_path) as process:
        ready: dict[str, Any] = json.loads(process.line())
        assert cometmq("topic", "create", "T", "--namesrv", ready["name_server"]).code == 0
        assert asyncio.run(route(ready["proxy"])).code == pb.OK
        assert process.kill(signal.SIGTERM).code == 0
        assert asyncio.run(is_gone(ready["proxy"]))


def test_the_proxy_goes_with_a_dev_that_is_killed(tmp_path: Path) -> None:
    with dev(tmp_path) as process:
        ready = json.loads(process.line())
        process.kill(signal.SIGKILL)
        assert asyncio.run(is_gone(ready["proxy"]))


def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    with dev(tmp_path / "first") as first:
        port = json.loads(first.line())["proxy"].rpartition(":")[2]
        with Process("dev", "--port", "0", "--store", str(tmp_path / "s"), "--grpc-port", port) as second:
            ended = second.end()
    assert ended.code == 2 and "the proxy has ended with" in ended.err


def test_a_console_is_served_until_a_signal(tmp_path: Path) -> None:
    where = ("--port", "0", "--store", str(tmp_path / "store"), "--json")
    with Process("dev", *where, "--console-port", "0") as process:
        ready = json.loads(process.line())
        with urllib.request.urlopen(f"http://{ready['console']}/groups") as answer:
            assert b"No group" in answer.read()
        assert process.kill(signal.SIGTERM).code == 0
        assert asyncio.run(is_gone(ready["console"]))
