"""Requests of operators, sent by the operations of ``admin`` to a broker that passes them on to the proxy."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from grpclib.client import Stream
from tests.proxy.conftest import Front
from tests.proxy.rpcs.test_sessions import consumer

from cometmq.admin import groups, messages
from cometmq.admin.cluster import ClusterAdmin
from cometmq.errors import RemoteError
from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.rpcs import relayed
from cometmq.wire.bodies.running import ConsumeResult
from cometmq.wire.codes import RequestCode
from cometmq.wire.headers import RunningInfoHeader

Telemetry = Stream[Any, Any]


@asynccontextmanager
async def member(front: Front, kind: pb.ClientType = pb.PUSH_CONSUMER) -> AsyncIterator[Telemetry]:
    await front.create_topic("T")
    async with front.client.telemetry(consumer(kind=kind)) as stream:
        yield stream


async def received(stream: Telemetry) -> pb.TelemetryCommand:
    command = await stream.recv_message()
    assert isinstance(command, pb.TelemetryCommand)
    return command


async def handled(front: Front, body: bytes = b"x") -> messages.Handled:
    await front.send("T", body)
    (stored,) = front.broker.messages("T")
    async with ClusterAdmin(front.broker.name_server) as admin:
        return await messages.consume_directly(admin, "G", stored)


@pytest.mark.parametrize(
    ("code", "result"),
    [
        (pb.OK, ConsumeResult.SUCCESS),
        (pb.FAILED_TO_CONSUME_MESSAGE, ConsumeResult.LATER),
        (pb.MESSAGE_CORRUPTED, ConsumeResult.RETURN_NULL),
    ],
)
async def test_a_push_consumer_handles_the_message_of_an_operator(
    front: Front, code: pb.Code, result: ConsumeResult
) -> None:
    async with member(front) as stream:
        asked = asyncio.create_task(handled(front, b"once more"))
        command = (await received(stream)).verify_message_command
        assert command.message.body == b"once more" and command.message.topic.name == "T"
        answer = pb.VerifyMessageResult(nonce=command.nonce)
        await stream.send_message(
            pb.TelemetryCommand(status=pb.Status(code=code), verify_message_result=answer)
        )
        outcome = (await asked).outcome
    assert (outcome.result, outcome.remark) == (result, "client-1")


async def test_a_client_that_cannot_handle_it_says_why(front: Front) -> None:
    async with member(front) as stream:
        asked = asyncio.create_task(handled(front))
        command = (await received(stream)).verify_message_command
        status = pb.Status(code=pb.NOT_IMPLEMENTED, message="not here")
        answer = pb.VerifyMessageResult(nonce=command.nonce)
        for nonce in ("another", command.nonce):
            answer = pb.VerifyMessageResult(nonce=nonce)
            await stream.send_message(pb.TelemetryCommand(status=status, verify_message_result=answer))
        with pytest.raises(RemoteError, match="client-1 answers NOT_IMPLEMENTED: not here"):
            await asked


async def test_without_a_push_consumer_there_is_nobody_to_handle_it(front: Front) -> None:
    async with member(front, pb.SIMPLE_CONSUMER):
        with pytest.raises(RemoteError, match="group 'G' has no push consumer at this proxy"):
            await handled(front)


async def test_a_client_that_does_not_answer_is_waited_for_only_so_long(
    front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relayed, "ANSWER_S", 0.05)
    async with member(front):
        with pytest.raises(RemoteError, match=r"client client-1 has not answered in 0\.05 s"):
            await handled(front)


async def test_the_proxy_shows_its_clients_and_their_stacks(front: Front) -> None:
    async with member(front) as stream, ClusterAdmin(front.broker.name_server) as admin:
        (found,) = groups.members(await groups.connected(admin, "G"))
        info = await groups.running(admin, "G", found.client_id)
        assert info.properties["PROXY_CLIENTS"] == "client-1" and info.stacks is None
        assert [data.topic for data in info.subscriptions] == ["T"]
        (address,) = (await admin.masters()).values()
        header = RunningInfoHeader("G", found.client_id, with_stacks=True)
        asked = asyncio.create_task(admin.ask(address, RequestCode.GET_CONSUMER_RUNNING_INFO, header))
        nonce = (await received(stream)).print_thread_stack_trace_command.nonce
        trace = pb.ThreadStackTrace(nonce=nonce, thread_stack_trace="at main()")
        await stream.send_message(pb.TelemetryCommand(thread_stack_trace=trace))
        assert b"client-1:\\nat main()\\n" in (await asked).body
