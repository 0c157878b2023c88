"""Two users whose clients have the same id: nothing of one is seen, changed or ended by the other.

All rpcs and commands of telemetry streams at a proxy, all requests at a broker.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message_factory import GetMessageClass
from grpclib.client import Stream
from grpclib.exceptions import GRPCError
from tests.broker.auth.signing import ANN, ROOT, checking, client_of
from tests.broker.conftest import Client
from tests.kit.grpc_clients import Guarded, consumer, guarded_by, producer
from tests.kit.request_bodies import BODIES, fields_with_names
from tests.proxy.conftest import GrpcClient, message_of, receive_request

from cometmq.access.policies import Acl, PolicyEntry
from cometmq.broker.broker import Broker
from cometmq.message import MessageQueue
from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.messages.receipts import parse_client_receipt
from cometmq.proxy.proxy import Proxy
from cometmq.proxy.transport import CLIENT_ID, METHODS
from cometmq.wire.acl import Credentials
from cometmq.wire.bodies import ConsumerData, Heartbeat, LockRequest, ProducerData, encode, tag_subscription
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import NoFields, UnregisterClientHeader
from cometmq.wire.requests import TO_BROKERS

ADMIN, OWNER, OTHER = (Credentials(name, f"{name}'s secret") for name in ("admin", "owner", "other"))
SECRET: Final = b"for the owner"
RIGHTS: Final = {
    OWNER: (("Topic:orders", "Pub", "Sub"), ("Topic:payments", "Pub"), ("Group:G", "Sub")),
    OTHER: (("Topic:mine", "Pub", "Sub"), ("Topic:half", "Pub"), ("Group:H", "Sub")),
}
SERVED: Final = METHODS.keys() - {"SyncLiteSubscription", "Telemetry"}
WITHOUT_NEEDS: Final = {"Heartbeat", "NotifyClientTermination"}
"""The rpcs that name no topic."""


def client(guarded: Guarded, user: Credentials) -> GrpcClient:
    """Return a user's client; all have the same id."""
    found = guarded.client(user)
    return found._replace(metadata={**found.metadata, CLIENT_ID: "c"})


@pytest.fixture
async def guarded() -> AsyncIterator[Guarded]:
    topics = dict.fromkeys(("orders", "mine"), "NORMAL") | dict.fromkeys(("payments", "half"), "TRANSACTION")
    async with guarded_by(ADMIN, RIGHTS, **topics) as connected:
        yield connected


def requests(topic: str, group: str, receipt: str) -> dict[str, Any]:
    """Return a request of each rpc about a topic, a group and a message that the owner has received."""
    names: dict[str, Any] = {"topic": pb.Resource(name=topic), "group": pb.Resource(name=group)}
    queue = pb.MessageQueue(
        topic=names["topic"], broker=pb.Broker(name=parse_client_receipt(receipt).handle.broker_name)
    )
    of_queue: dict[str, Any] = {"group": names["group"], "message_queue": queue}
    entry = pb.AckMessageEntry(message_id="ID", receipt_handle=receipt)
    made: dict[str, Any] = {
        "SendMessage": pb.SendMessageRequest(messages=[message_of(topic)]),
        "QueryRoute": pb.QueryRouteRequest(topic=names["topic"]),
        "QueryAssignment": pb.QueryAssignmentRequest(**names),
        "ReceiveMessage": receive_request(topic, group, auto_renew=True),
        "AckMessage": pb.AckMessageRequest(entries=[entry], **names),
        "ChangeInvisibleDuration": pb.ChangeInvisibleDurationRequest(
            receipt_handle=receipt, invisible_duration=Duration(seconds=0), **names
        ),
        "ForwardMessageToDeadLetterQueue": pb.ForwardMessageToDeadLetterQueueRequest(
            receipt_handle=receipt, message_id="ID", **names
        ),
        "PullMessage": pb.PullMessageRequest(**of_queue),
        "GetOffset": pb.GetOffsetRequest(**of_queue),
        "UpdateOffset": pb.UpdateOffsetRequest(offset=1, **of_queue),
        "QueryOffset": pb.QueryOffsetRequest(message_queue=queue),
        "EndTransaction": pb.EndTransactionRequest(topic=names["topic"], transaction_id="ID"),
        "RecallMessage": pb.RecallMessageRequest(topic=names["topic"], recall_handle="ID"),
        "Heartbeat": pb.HeartbeatRequest(group=names["group"], client_type=pb.PUSH_CONSUMER),
        "NotifyClientTermination": pb.NotifyClientTerminationRequest(group=names["group"]),
    }
    assert made.keys() == SERVED
    return made


@asynccontextmanager
async def connected(client: GrpcClient, settings: pb.Settings) -> AsyncIterator["Stream[Any, Any]"]:
    """Open a telemetry stream, on which nothing may be sent that is not read, and send settings."""
    async with client.open("Telemetry") as stream:
        await stream.send_message(pb.TelemetryCommand(settings=settings))
        answer = await stream.recv_message()
        assert answer is not None and answer.status.code == pb.OK
        yield stream
        await stream.end()
        assert [answer async for answer in stream] == []


async def answers_to(client: GrpcClient, name: str, request: Any) -> list[Any]:
    async with client.open(name) as stream:
        await stream.send_message(request, end=True)
        return [answer async for answer in stream]


def kept_for(proxy: Proxy, user: str) -> tuple[Any, ...]:
    """Return what a proxy keeps for a user's clients."""
    clients = [one for one in proxy._clients._by_key.values() if one.key.user == user]
    return (
        [
            (one.key, one.heard_at, one.settings.SerializeToString(deterministic=True), one.groups.copy())
            for one in clients
        ],
        [list(one.exchanges) for one in clients],
        {owner: dict(held) for owner, held in proxy._renewals._held.items() if owner[0].user == user},
        {data.topic: data.expression for data in proxy._membership.subscriptions("G")},
        "payments" in proxy._transactions._presences,
    )


@pytest.mark.parametrize("has_settings", [False, True], ids=["without settings", "with settings"])
async def test_no_rpc_under_anothers_client_id_reaches_that_client(
    guarded: Guarded, has_settings: bool
) -> None:
    owner, other = client(guarded, OWNER), client(guarded, OTHER)
    proxy = guarded.embedded._proxy
    assert proxy is not None
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        await enter(connected(owner, consumer("G", "orders", kind=pb.PUSH_CONSUMER)))
        await owner.call("SendMessage", pb.SendMessageRequest(messages=[message_of("orders", SECRET)]))
        _, (message,) = await owner.receive(receive_request("orders", "G", auto_renew=True))
        receipt = message.system_properties.receipt_handle
        kept = kept_for(proxy, "owner")
        assert len(kept[0]) == len(kept[1]) == len(kept[2]) == 1
        if has_settings:
            await enter(connected(other, consumer("H", "mine", kind=pb.PUSH_CONSUMER)))
        for topic, group in (("mine", "H"), ("orders", "G")):
            for name, request in requests(topic, group, receipt).items():
                answers = await answers_to(other, name, request)
                assert kept_for(proxy, "owner") == kept, name
                assert SECRET not in b"".join(answer.SerializeToString() for answer in answers), name
                if group == "G":
                    assert [answer.status.code for answer in answers] == [pb.UNAUTHORIZED], name
        for name in WITHOUT_NEEDS:
            await answers_to(other, name, GetMessageClass(METHODS[name].input_type)())
            assert kept_for(proxy, "owner") == kept, name
        entry = pb.AckMessageEntry(message_id="ID", receipt_handle=receipt)
        names = {"group": pb.Resource(name="G"), "topic": pb.Resource(name="orders")}
        acked = await owner.call("AckMessage", pb.AckMessageRequest(entries=[entry], **names))
        assert acked.status.code == acked.entries[0].status.code == pb.OK, "nobody has ended its delivery"


COMMANDS: Final[Mapping[str, pb.TelemetryCommand]] = {
    "settings of a consumer": pb.TelemetryCommand(settings=consumer("H", "mine")),
    "settings of a producer": pb.TelemetryCommand(settings=producer("mine", "half")),
    "the other's settings": pb.TelemetryCommand(settings=consumer("G", "orders")),
    "the other's topics": pb.TelemetryCommand(settings=producer("payments")),
    "no settings": pb.TelemetryCommand(settings=pb.Settings()),
    "a stack": pb.TelemetryCommand(thread_stack_trace=pb.ThreadStackTrace(nonce="n")),
    "a result": pb.TelemetryCommand(verify_message_result=pb.VerifyMessageResult(nonce="n")),
    "a check": pb.TelemetryCommand(
        recover_orphaned_transaction_command=pb.RecoverOrphanedTransactionCommand(transaction_id="x")
    ),
    "a message": pb.TelemetryCommand(verify_message_command=pb.VerifyMessageCommand(nonce="n")),
    "a question": pb.TelemetryCommand(
        print_thread_stack_trace_command=pb.PrintThreadStackTraceCommand(nonce="n")
    ),
    "a way": pb.TelemetryCommand(reconnect_endpoints_command=pb.ReconnectEndpointsCommand(nonce="n")),
    "nothing": pb.TelemetryCommand(),
}


@pytest.mark.parametrize("has_settings", [False, True], ids=["without settings", "with settings"])
async def test_no_command_on_a_stream_under_anothers_client_id_reaches_that_client(
    guarded: Guarded, has_settings: bool
) -> None:
    owner, other = client(guarded, OWNER), client(guarded, OTHER)
    proxy = guarded.embedded._proxy
    assert proxy is not None
    async with connected(owner, producer("payments")):
        kept = kept_for(proxy, "owner")
        for name, command in COMMANDS.items():
            answers = []
            with suppress(GRPCError):  # of settings that are refused
                async with other.open("Telemetry") as others:
                    if has_settings:
                        await others.send_message(COMMANDS["settings of a producer"])
                    await others.send_message(command, end=True)
                    answers = [answer async for answer in others]
            assert all(answer.WhichOneof("command") == "settings" for answer in answers), name
            assert kept_for(proxy, "owner") == kept, name


async def test_half_messages_are_shown_to_the_client_of_their_user_only(guarded: Guarded) -> None:
    owner, other = client(guarded, OWNER), client(guarded, OTHER)
    embedded = guarded.embedded
    checks = embedded._broker.parts.transaction_check
    half = message_of("payments", SECRET, message_type=pb.TRANSACTION)
    async with connected(owner, producer("payments")) as stream, connected(other, producer("half")):
        for _ in range(2):  # streams take turns
            sent = await owner.call("SendMessage", pb.SendMessageRequest(messages=[half]))
            assert sent.status.code == pb.OK
        while not embedded._broker.parts.producers.members("payments"):
            await stream.send_message(pb.TelemetryCommand(settings=producer("payments")))
            await stream.recv_message()  # the proxy's first heartbeat is on its way meanwhile
        embedded.clock.advance(60)
        embedded._run(checks.round())
        for _ in range(2):
            asked = await stream.recv_message()
            assert asked is not None
            assert asked.recover_orphaned_transaction_command.message.body == SECRET


@asynccontextmanager
async def held_by_root(broker: Broker) -> AsyncIterator[tuple[Client, Any]]:
    """Connect a client of root's as producer and as consumer with a lock; provide it, and what shows that."""
    parts = broker.parts
    consuming = ConsumerData("root-group", [tag_subscription("secret", "*", 1)])
    beat = Heartbeat("c", producers=[ProducerData("root-group")], consumers=[consuming])
    locking = LockRequest("c", "root-group", [MessageQueue("secret", "b", 0)])
    async with client_of(broker, ROOT) as root:
        for code, body in ((RequestCode.HEART_BEAT, beat), (RequestCode.LOCK_BATCH_MQ, locking)):
            answer = await root.ask(code, NoFields(), encode(body, standard=True))
            assert answer.code == ResponseCode.SUCCESS
        (session,) = parts.producers.members("root-group")

        def shown() -> tuple[Any, ...]:
            group = parts.consumers.find("root-group")
            assert group is not None
            return (
                list(parts.producers.members("root-group").items()),
                parts.producers.find("c") is session,
                list(group.members.items()),
                dict(group.subscriptions),
                {name: dict(locks) for name, locks in parts.locks._groups.items() if name == "root-group"},
            )

        yield root, shown


async def test_no_request_under_anothers_client_id_reaches_that_client(tmp_path: Path) -> None:
    waiting = {RequestCode.POP_MESSAGE, RequestCode.NOTIFICATION, RequestCode.PULL_MESSAGE}
    leaving = UnregisterClientHeader("c", "root-group")
    async with checking(tmp_path) as broker, client_of(broker, ANN) as ann:
        assert broker.parts.users is not None
        entries = (PolicyEntry.parse(name, ["All"], (), "Allow") for name in ("Topic:orders", "Group:g1"))
        broker.parts.users.directory.put_acl(Acl(ANN.access_key, tuple(entries)))
        async with held_by_root(broker) as (root, shown):
            held = shown()
            beat = Heartbeat("c", producers=[ProducerData("root-group")])
            answer = await ann.ask(RequestCode.HEART_BEAT, NoFields(), encode(beat, standard=True))
            assert answer.code == ResponseCode.SUCCESS
            assert len(broker.parts.producers.members("root-group")) == 2
            await ann.ask(RequestCode.UNREGISTER_CLIENT, leaving)
            assert shown() == held
            for code, line in TO_BROKERS.items():
                if code in waiting:
                    continue
                body = encode(BODIES[line.body], standard=True) if line.body in BODIES else b""
                named = {
                    name: "c" if name in ("clientID", "clientId", "clientAddr") else value
                    for name, value in fields_with_names(line).items()
                }
                await ann.connection.request(Command(code, ext_fields=named, body=body))
                assert shown() == held, code.name
            assert all(told.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED for told in _drained(root))


def _drained(client: Client) -> list[Command]:
    return [client.told.get_nowait() for _ in range(client.told.qsize())]
