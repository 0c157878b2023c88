"""Requests of operators, sent by the operations of ``admin`` to a broker that passes them on to the proxy."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from grpclib.client import Stream
from tests.kit.grpc_clients import call_of, consumer, nothing
from tests.proxy.conftest import Front

from cometmq.access.decision import Permission
from cometmq.admin import groups, messages
from cometmq.admin.cluster import ClusterAdmin
from cometmq.errors import NotFound, RemoteError
from cometmq.io.clock import SystemClock
from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.access import needs_of
from cometmq.proxy.brokers import Brokers
from cometmq.proxy.clients import Clients
from cometmq.proxy.membership import ProxyMembership
from cometmq.proxy.messages.bodies import Bodies
from cometmq.proxy.outcomes import Failure
from cometmq.proxy.rpcs import relayed
from cometmq.proxy.rpcs.relayed import RelayedRequests
from cometmq.proxy.transport import Call, Exchange
from cometmq.wire.bodies.running import ConsumeResult
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import RunningInfoHeader, fields
from cometmq.wire.requests import Action, Resource

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


class Members:
    """Push consumers of group G under one id, each of another user; ``admitted`` may receive now."""

    def __init__(self, *users: str) -> None:
        self.admitted = set(users)
        self.asked: list[tuple[str, Any]] = []
        self.is_sent = asyncio.Event()
        self.sent: dict[str, list[pb.TelemetryCommand]] = {user: [] for user in users}
        self.clients = Clients(self._admit)
        self.relayed = RelayedRequests(
            self.clients, ProxyMembership(Brokers([], SystemClock())), Bodies(1 << 20)
        )
        for user in users:

            async def send(command: pb.TelemetryCommand, user: str = user) -> None:
                self.sent[user].append(command)
                self.is_sent.set()

            self.clients.update(
                call_of("c", user), consumer(kind=pb.PUSH_CONSUMER), Exchange(nothing(), send)
            )

    async def _admit(self, rpc: str, request: Any, call: Call) -> str:
        self.asked.append((rpc, request))
        if call.user not in self.admitted:
            raise Failure(pb.UNAUTHORIZED, "no permission")
        return call.user


async def test_a_message_goes_to_a_member_whose_user_may_receive_it_now() -> None:
    members = Members("ann", "bob")
    members.admitted.remove("bob")
    for _ in range(2):
        client, _ = await members.relayed._push_consumer("G", "%RETRY%G_T")
        assert client.key.user == "ann"
    rpc, request = members.asked[-1]
    assert rpc == "ReceiveMessage" and needs_of(rpc, request) == [
        Permission(Resource.GROUP, "G", (Action.SUB,)),
        Permission(Resource.TOPIC, "T", (Action.SUB,)),
    ]
    members.admitted.clear()
    with pytest.raises(
        NotFound, match="no push consumer of group 'G' at this proxy is one of a user who may"
    ):
        await members.relayed._push_consumer("G", "T")
    assert members.sent == {"ann": [], "bob": []}


async def test_only_members_whose_users_may_be_members_are_asked_for_their_stacks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(relayed, "ANSWER_S", 0.01)
    members = Members("ann", "bob")
    members.admitted.remove("bob")
    header = RunningInfoHeader("G", "proxy", with_stacks=True)
    info = await members.relayed._running_info(Command(0, ext_fields=fields(header)))
    assert "c: its user may not be a member of group 'G' any more" in (info.stacks or "")
    assert [len(commands) for commands in members.sent.values()] == [1, 0]


async def test_an_answer_of_another_users_client_is_dropped() -> None:
    members = Members("ann", "bob")
    ann, bob = (client.key for client in members.clients)
    client, exchange = await members.relayed._push_consumer("G", "T")
    assert client.key == ann
    asked = asyncio.create_task(
        members.relayed._ask(
            client, exchange, lambda nonce: pb.TelemetryCommand(status=pb.Status(message=nonce))
        )
    )
    await members.is_sent.wait()
    nonce = members.sent["ann"][0].status.message
    for key in (bob, ann):
        answer = pb.TelemetryCommand(status=pb.Status(message=key.user))
        members.relayed.settle(key, nonce, answer)
    assert (await asked).status.message == "ann"
