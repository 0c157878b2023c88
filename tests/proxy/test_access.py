"""Signatures and permissions of calls, judged by the users of a real broker."""

from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from google.protobuf.message_factory import GetMessageClass
from grpclib.client import Channel
from grpclib.const import Status
from grpclib.exceptions import GRPCError, StreamTerminatedError
from tests.kit.grpc_clients import Guarded, consumer, guarded_by
from tests.proxy.conftest import receive_request

from cometmq.access.decision import Permission
from cometmq.access.failures import FAILURES_MAX
from cometmq.admin.cluster import ClusterAdmin
from cometmq.errors import SettingsError
from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.access import ClientAccess, needs_of
from cometmq.proxy.connection import NEWCOMER_LIMITS
from cometmq.proxy.messages.receipts import parse_client_receipt
from cometmq.proxy.outcomes import Failure
from cometmq.proxy.proxy import Proxy
from cometmq.proxy.transport import METHODS, Call
from cometmq.testing.embedded_broker import EmbeddedBroker
from cometmq.wire.acl import Credentials
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command
from cometmq.wire.headers.access import AclFilterHeader, UserHeader
from cometmq.wire.requests import Action, Resource

ADMIN, SHOP = Credentials("admin", "admin-secret"), Credentials("shop", "shop-secret")


@pytest.fixture
async def guarded() -> AsyncIterator[Guarded]:
    rights = {SHOP: (("Topic:T", "Pub", "Sub"), ("Group:G", "Sub"))}
    async with guarded_by(ADMIN, rights, T="NORMAL", Other="NORMAL") as connected:
        yield connected


@pytest.mark.parametrize("upper", [False, True])
async def test_a_user_sends_and_receives_what_it_may(guarded: Guarded, upper: bool) -> None:
    assert (await guarded.send(SHOP, upper=upper)).code == pb.OK
    status, (message,) = await guarded.client(SHOP).receive(receive_request("T", "G"))
    assert status.code == pb.OK and message.body == b"x"


async def test_a_super_user_may_all(guarded: Guarded) -> None:
    assert (await guarded.send(ADMIN, "Other")).code == pb.OK


@pytest.mark.parametrize(
    ("user", "text"),
    [
        (None, "the call is not signed"),
        (Credentials("shop", "wrong"), "check signature failed."),
        (Credentials("nobody", "x"), "User:nobody is not found."),
    ],
)
async def test_a_call_of_nobody_that_is_known_is_refused(
    guarded: Guarded, user: Credentials | None, text: str
) -> None:
    status = await guarded.send(user)
    assert status.code == pb.UNAUTHORIZED and text in status.message


async def test_a_user_is_refused_what_it_may_not(guarded: Guarded) -> None:
    status = await guarded.send(SHOP, "Other")
    assert status.code == pb.UNAUTHORIZED and "no permission to access Topic:Other" in status.message
    for topic, group in (("Other", "G"), ("T", "H")):
        status, messages = await guarded.client(SHOP).receive(receive_request(topic, group))
        assert status.code == pb.UNAUTHORIZED and messages == []


async def test_settings_on_a_stream_are_checked_too(guarded: Guarded) -> None:
    async with guarded.client(SHOP).telemetry(consumer("G")):
        pass
    with pytest.raises(GRPCError) as caught:
        async with guarded.client(SHOP).telemetry(consumer("H")):
            pass
    assert caught.value.status is Status.INVALID_ARGUMENT


async def test_of_who_fails_too_often_connections_are_closed_and_others_stay(guarded: Guarded) -> None:
    assert (await guarded.send(SHOP)).code == pb.OK
    for _ in range(FAILURES_MAX):
        assert (
            await guarded.send(None)
        ).code == pb.UNAUTHORIZED  # it has been signed for, so it may fail often
    async with guarded.connect() as other:
        assert (await other.send(SHOP)).code == pb.OK
        with pytest.raises(StreamTerminatedError):
            await guarded.send(Credentials("nobody", "x"))
        with pytest.raises(StreamTerminatedError):
            await guarded.send(Credentials("shop", "wrong"))  # by a new connection
        assert (await other.send(SHOP)).code == pb.OK
    assert (await guarded.send(SHOP)).code == pb.OK


async def test_who_has_not_signed_yet_may_fail_less_often(guarded: Guarded) -> None:
    for _ in range(NEWCOMER_LIMITS.refused_max):
        assert (await guarded.send(None)).code == pb.UNAUTHORIZED
    with pytest.raises(StreamTerminatedError):
        await guarded.send(None)
    assert (await guarded.send(SHOP)).code == pb.OK


async def test_a_stream_that_nobody_known_has_signed_is_refused(guarded: Guarded) -> None:
    with pytest.raises(GRPCError) as caught:
        async with guarded.client(None).telemetry(consumer("G")):
            pass
    assert caught.value.status is Status.INVALID_ARGUMENT and "not signed" in (caught.value.message or "")
    status, messages = await guarded.client(None).receive(receive_request("T", "G"))
    assert status.code == pb.UNAUTHORIZED and messages == []


async def test_a_handle_that_names_the_place_of_another_message_makes_no_dead_letter(
    guarded: Guarded,
) -> None:
    client = guarded.client(SHOP)
    await guarded.send(ADMIN, "Other")
    await guarded.send(SHOP)
    status, (message,) = await client.receive(receive_request("T", "G"))
    assert status.code == pb.OK
    receipt = parse_client_receipt(message.system_properties.receipt_handle)
    names: dict[str, Any] = {"group": pb.Resource(name="G"), "topic": pb.Resource(name="T")}

    async def forwarded(place: int) -> pb.Status:
        handle = str(receipt._replace(physical_offset=place))
        request = pb.ForwardMessageToDeadLetterQueueRequest(receipt_handle=handle, message_id="ID", **names)
        answer: pb.ForwardMessageToDeadLetterQueueResponse = await client.call(
            "ForwardMessageToDeadLetterQueue", request
        )
        return answer.status

    for place in (0, receipt.physical_offset + 1, -1):
        refused = await forwarded(place)
        assert refused.code == pb.INVALID_RECEIPT_HANDLE, place
    assert "names the place of another message" in (await forwarded(0)).message
    assert guarded.embedded.dead_letters("G") == []
    assert (await forwarded(receipt.physical_offset)).code == pb.OK
    assert [letter.body for letter in guarded.embedded.dead_letters("G")] == [b"x"]


async def test_nobody_new_is_looked_up_for_an_address_that_guesses() -> None:
    asked: list[str] = []

    class Nobody:
        async def masters(self) -> dict[str, str]:
            return {"broker": "127.0.0.1:1"}

        async def ask(self, _: str, code: RequestCode, header: UserHeader | AclFilterHeader) -> Command:
            if isinstance(header, UserHeader):
                asked.append(header.username)
            return Command(code)

    guarding = ClientAccess(cast(ClusterAdmin, Nobody()), lambda: 0)
    for number in range(FAILURES_MAX + 9):
        authorization = f"MQv2-HMAC-SHA1 Credential={number}, SignedHeaders=x, Signature={'0' * 40}"
        with pytest.raises(Failure):
            await guarding.caller(Call({"authorization": authorization}, "127.0.0.2:1"))
    assert len(asked) == FAILURES_MAX + 1


async def test_without_credentials_of_its_own_the_proxy_cannot_look_up_users() -> None:
    with pytest.raises(SettingsError, match="--credentials"):
        Proxy(["127.0.0.1:1"], authenticate=True)


async def test_where_signatures_are_checked_other_machines_may_connect() -> None:
    async with Proxy(["127.0.0.1:1"], "0.0.0.0", 0, authenticate=True, credentials=ADMIN) as proxy:
        assert proxy.port


async def test_a_proxy_whose_user_may_not_look_up_users_serves_nobody() -> None:
    with EmbeddedBroker(credentials=ADMIN) as embedded:
        async with (
            Proxy([embedded.name_server], port=0, authenticate=True, credentials=SHOP) as proxy,
            Channel("127.0.0.1", proxy.port) as channel,
        ):
            status = await Guarded("", channel).send(ADMIN)
    assert status.code == pb.INTERNAL_SERVER_ERROR and "must be a super user's" in status.message


def test_each_rpc_says_what_it_needs() -> None:
    on_group = Permission(Resource.GROUP, "G", (Action.SUB,))
    group, topic = pb.Resource(name="G"), pb.Resource(name="%RETRY%G")
    assert needs_of("AckMessage", pb.AckMessageRequest(group=group, topic=topic)) == [on_group, on_group]
    assert needs_of("Heartbeat", pb.HeartbeatRequest(client_type=pb.PRODUCER)) == []
    assert needs_of("Heartbeat", pb.HeartbeatRequest(group=group)) == [on_group]
    route = needs_of("QueryRoute", pb.QueryRouteRequest(topic=pb.Resource(name="T")))
    assert route == [Permission(Resource.TOPIC, "T", (Action.PUB, Action.SUB))]


async def test_no_rpc_that_is_served_is_forgotten() -> None:
    served = Proxy(["127.0.0.1:1"])._rpcs().keys()
    for name in served:
        request = pb.Settings() if name == "Telemetry" else GetMessageClass(METHODS[name].input_type)()
        assert isinstance(needs_of(name, request), list)
