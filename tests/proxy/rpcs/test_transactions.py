import pytest
from tests.proxy.conftest import Front

from cometmq.admin.cluster import ClusterAdmin
from cometmq.errors import RemoteError
from cometmq.proxy import messaging_pb2 as pb
from cometmq.wire.bodies.body import decode
from cometmq.wire.bodies.group import ProducerConnections
from cometmq.wire.codes import RequestCode
from cometmq.wire.headers.client import ProducerGroupHeader

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
