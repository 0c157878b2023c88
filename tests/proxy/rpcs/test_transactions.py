import asyncio
from typing import cast

import pytest
from tests.kit.grpc_clients import call_of, nothing
from tests.proxy.conftest import Front

from cometmq.admin.cluster import ClusterAdmin
from cometmq.errors import RemoteError
from cometmq.format import properties
from cometmq.format.host import pack_host
from cometmq.format.record import Record, encode
from cometmq.io.clock import SystemClock
from cometmq.net.connection import Connection
from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.brokers import Brokers
from cometmq.proxy.clients import Clients
from cometmq.proxy.messages.bodies import Bodies
from cometmq.proxy.outcomes import Failure
from cometmq.proxy.rpcs.transactions import ClientTransactions
from cometmq.proxy.transport import Call, Exchange
from cometmq.wire.bodies.body import decode
from cometmq.wire.bodies.group import ProducerConnections
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import CheckTransactionStateHeader, fields
from cometmq.wire.headers.client import ProducerGroupHeader

HOST = pack_host("127.0.0.1", 1)
PRODUCER = pb.Settings(client_type=pb.PRODUCER, publishing=pb.Publishing(topics=[pb.Resource(name="T")]))


async def end(
    front: Front, transaction_id: str, resolution: pb.TransactionResolution, source: pb.TransactionSource
) -> pb.Status:
    request = pb.EndTransactionRequest(
        topic=pb.Resource(name="T"),
        message_id="ID-x",
        transaction_id=transaction_id,
        resolution=resolution,
        source=source,
    )
    status: pb.Status = (await front.client.call("EndTransaction", request)).status
    return status


async def test_a_committed_message_is_delivered(front: Front) -> None:
    await front.create_topic("T", "TRANSACTION")
    sent = await front.send("T", b"x", message_type=pb.TRANSACTION)
    assert front.broker.messages("T") == []
    status = await end(front, sent.entries[0].transaction_id, pb.COMMIT, pb.SOURCE_CLIENT)
    assert status.code == pb.OK
    (message,) = await front.receive("T", "G", 1)
    assert message.body == b"x" and message.system_properties.message_id == "ID-x"


async def test_a_message_that_is_rolled_back_is_not(front: Front) -> None:
    await front.create_topic("T", "TRANSACTION", queues=1)
    sent = await front.send("T", b"x", b"y", message_type=pb.TRANSACTION)
    rolled_back, committed = (entry.transaction_id for entry in sent.entries)
    await end(front, rolled_back, pb.ROLLBACK, pb.SOURCE_CLIENT)
    await end(front, committed, pb.COMMIT, pb.SOURCE_CLIENT)
    (message,) = await front.receive("T", "G", 1)
    assert message.body == b"y"


@pytest.mark.parametrize("text", ["", "ID-x"])
async def test_what_is_no_transaction_id_is_refused(front: Front, text: str) -> None:
    status = await end(front, text, pb.COMMIT, pb.SOURCE_CLIENT)
    assert status.code == pb.INVALID_TRANSACTION_ID


async def publishers(front: Front, topic: str) -> int:
    """Return how many members the producer group of a topic's transactions has at the broker."""
    async with ClusterAdmin(front.broker.name_server) as admin:
        (address,) = (await admin.masters()).values()
        try:
            answer = await admin.ask(
                address, RequestCode.GET_PRODUCER_CONNECTION_LIST, ProducerGroupHeader(topic)
            )
        except RemoteError:
            return 0
    return len(decode(ProducerConnections, answer.body).connections)


async def test_brokers_ask_a_proxy_as_long_as_a_client_publishes(front: Front) -> None:
    await front.create_topic("T", "TRANSACTION")
    ended, other = pb.NotifyClientTerminationRequest(), front.other("client-2")
    async with front.client.telemetry(PRODUCER), other.telemetry(PRODUCER):
        while not await publishers(front, "T"):
            pass  # the first heartbeat is on its way
        await other.call("NotifyClientTermination", ended)
        assert await publishers(front, "T") == 1
        await front.client.call("NotifyClientTermination", ended)
        assert await publishers(front, "T") == 0


def checked(real_topic: str = "T") -> Command:
    """Build a broker's check of a half message of producer group T, which is one of this proxy's."""
    named = {"PGROUP": "T", "REAL_TOPIC": real_topic, "UNIQ_KEY": "ID-x"}
    header = CheckTransactionStateHeader(half_offset=3, physical_offset=7, broker_name="b")
    half = Record(real_topic, b"x", properties.encode(named), 0, 3, 7, 0, 0, 0, HOST, 0, HOST)
    return Command(RequestCode.CHECK_TRANSACTION_STATE, ext_fields=fields(header), body=encode(half))


async def commands_after(command: Command, admitted: set[str], *users: str) -> dict[str, list[bytes]]:
    """Return the bodies that each user's client under the same id gets with a broker's check."""

    async def admit(rpc: str, request: pb.EndTransactionRequest, call: Call) -> str:
        assert (rpc, request.topic.name) == ("EndTransaction", "T")
        if call.user not in admitted:
            raise Failure(pb.UNAUTHORIZED, "no permission")
        return call.user

    got: dict[str, list[bytes]] = {user: [] for user in users}
    clients = Clients(admit)
    for user in users:

        async def send(sent: pb.TelemetryCommand, user: str = user) -> None:
            got[user].append(sent.recover_orphaned_transaction_command.message.body)

        clients.update(call_of("c", user), PRODUCER, Exchange(nothing(), send))
    transactions = ClientTransactions(Brokers([], SystemClock()), clients, Bodies(1 << 20))
    for _ in range(2):
        transactions.check(cast(Connection, None), command)
    await asyncio.gather(*transactions._asking)
    return got


async def test_only_who_may_end_a_transaction_gets_its_message() -> None:
    assert await commands_after(checked(), {"ann"}, "bob", "ann") == {"bob": [], "ann": [b"x", b"x"]}
    assert await commands_after(checked(), set(), "bob", "ann") == {"bob": [], "ann": []}
    assert await commands_after(checked(), {"", "ann"}, "") == {"": [b"x", b"x"]}


async def test_clients_that_may_are_asked_in_turn() -> None:
    assert await commands_after(checked(), {"ann", "bob"}, "bob", "ann") == {"bob": [b"x"], "ann": [b"x"]}


async def test_a_half_message_of_another_topic_than_its_group_is_shown_to_nobody() -> None:
    assert await commands_after(checked("secret"), {"ann"}, "ann") == {"ann": []}
