"""``cometmq proxy --workers``: several processes on one port."""

import json
import os
import signal
from contextlib import AsyncExitStack
from pathlib import Path

from grpclib.client import Channel
from tests.cli.conftest import Process
from tests.proxy.conftest import GrpcClient, receive_request

from cometmq.message import Message
from cometmq.net.address import parse_address
from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.messages.receipts import parse_client_receipt
from cometmq.testing.embedded_broker import EmbeddedBroker

CONNECTIONS = 64


def children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def connections_of(pid: int) -> int:
    """Return how many sockets a process has open."""
    folder = Path(f"/proc/{pid}/fd")
    return sum(os.readlink(folder / name).startswith("socket:") for name in os.listdir(folder))


async def test_connections_are_spread_over_workers(rocketmq: EmbeddedBroker) -> None:
    rocketmq.create_topic("T", 1)
    options = ("--port", "0", "--namesrv", rocketmq.name_server, "--workers", "2", "--json")
    with Process("proxy", *options) as process:
        ready = json.loads(process.line())
        assert ready["workers"] == 2
        pids = children(process.pid)
        assert len(pids) == 2
        before = {pid: connections_of(pid) for pid in pids}
        request = pb.QueryRouteRequest(topic=pb.Resource(name="T"))
        channels = [Channel(*parse_address(ready["proxy"])) for _ in range(CONNECTIONS)]
        for channel in channels:
            answer = await GrpcClient(channel, {"x-mq-client-id": "c"}).call("QueryRoute", request)
            assert answer.status.code == pb.OK
        assert all(connections_of(pid) - before[pid] >= CONNECTIONS // 8 for pid in pids)
        for channel in channels:
            channel.close()
        assert process.kill(signal.SIGTERM).code == 0


async def test_a_handle_that_one_worker_gave_is_taken_by_another(rocketmq: EmbeddedBroker) -> None:
    rocketmq.create_topic("T", 1)
    options = ("--port", "0", "--namesrv", rocketmq.name_server, "--workers", "2", "--json")
    names = {"group": pb.Resource(name="G"), "topic": pb.Resource(name="T")}
    async with AsyncExitStack() as stack:
        process = stack.enter_context(Process("proxy", *options))
        address = parse_address(json.loads(process.line())["proxy"])
        by_worker: dict[int | None, tuple[GrpcClient, str]] = {}
        while len(by_worker) < 2:
            rocketmq.send(Message("T", b"x"))
            client = GrpcClient(await stack.enter_async_context(Channel(*address)), {"x-mq-client-id": "c"})
            _, (received,) = await client.receive(receive_request("T", "G", batch_size=1, auto_renew=True))
            handle = received.system_properties.receipt_handle
            by_worker.setdefault(parse_client_receipt(handle).worker, (client, handle))
        assert by_worker.keys() == {0, 1}
        for worker, (_, handle) in by_worker.items():
            other, _ = by_worker[1 - (worker or 0)]
            entry = pb.AckMessageEntry(message_id="ID", receipt_handle=handle)
            answer = await other.call("AckMessage", pb.AckMessageRequest(entries=[entry], **names))
            assert answer.status.code == pb.OK
            assert answer.entries[0].receipt_handle == handle


def test_if_a_worker_ends_all_do(rocketmq: EmbeddedBroker) -> None:
    options = ("--port", "0", "--namesrv", rocketmq.name_server, "--workers", "2", "--json")
    with Process("proxy", *options) as process:
        process.line()
        os.kill(children(process.pid)[0], signal.SIGKILL)
        ended = process.end()
    assert ended.code == 1 and "error: a worker has ended with -9: see above" in ended.err


def test_a_port_that_is_taken_is_said_once(rocketmq: EmbeddedBroker) -> None:
    port = rocketmq.name_server.rpartition(":")[2]
    with Process("proxy", "--port", port, "--namesrv", rocketmq.name_server, "--workers", "2") as process:
        ended = process.end()
    assert ended.code != 0 and "another process listens there" in ended.err
