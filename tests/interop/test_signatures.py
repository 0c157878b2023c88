"""Signatures between both products: ours judged by RocketMQ's broker, theirs by our own definition."""

import asyncio
from pathlib import Path
from typing import Final

import pytest
from tests.interop import peers
from tests.interop.conftest import AUTHENTICATING
from tests.interop.groups import in_group
from tests.interop.jvm import Run
from tests.interop.patience import PATIENCE_S
from tests.interop.peers import Peer
from tests.signatures import USER, watching

from cometmq import (
    Consumer,
    Credentials,
    LitePullConsumer,
    Lookup,
    Message,
    Producer,
    PullConsumer,
    SimpleConsumer,
    Start,
    StoredMessage,
    TransactionProducer,
    TransactionState,
)
from cometmq.admin.cluster import brokers
from cometmq.admin.topics import TopicAdmin
from cometmq.errors import CometMQError
from cometmq.namesrv.access import NameServerAccess
from cometmq.namesrv.name_server import NameServer
from cometmq.wire.codes import RequestCode

pytestmark = pytest.mark.interop


async def test_the_signatures_of_a_java_client_are_those_that_we_make(
    serialize_type: str, run_java: Run, tmp_path: Path
) -> None:
    async with watching(tmp_path) as watched:
        (ran,) = await asyncio.to_thread(
            run_java,
            "Signed",
            watched.name_server,
            f"Signed-{serialize_type}",
            USER.access_key,
            USER.secret_key,
            properties={"rocketmq.serialize.type": serialize_type},
        )
    assert ran == {"received": ["batch-0", "batch-1", "oneway-0", "sync-0"], "found": "sync-0"}
    watched.check(
        RequestCode.GET_ROUTEINFO_BY_TOPIC,
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
        RequestCode.HEART_BEAT,
        RequestCode.LITE_PULL_MESSAGE,
        RequestCode.QUERY_MESSAGE,
        RequestCode.UPDATE_CONSUMER_OFFSET,
    )


JAVA: Final = [in_group("rocketmq", "signatures")]


@pytest.mark.parametrize("_name", JAVA)
async def test_a_java_broker_accepts_all_that_our_clients_sign(_name: str, java_broker: Peer) -> None:
    where = java_broker.namesrv

    async def commit(_: object) -> TransactionState:
        return TransactionState.COMMIT

    async with TopicAdmin(where, credentials=USER) as admin:
        await admin.create("Ours", queues=2)
        assert [line.trouble for line in await brokers(admin)] == [None]
    async with Producer(where, credentials=USER) as producer:
        sent = await producer.send(Message("Ours", b"alone", keys=("42",)))
        await producer.send_many([Message("Ours", b"%d" % number) for number in range(3)])
        await producer.send_oneway(Message("Ours", b"quietly"))
    async with TransactionProducer(where, "shop", check=commit, credentials=USER) as shop:
        await shop.send_in_transaction(Message("Ours", b"paid"), commit)
    bodies = {b"alone", b"0", b"1", b"2", b"quietly", b"paid"}
    async with Lookup(where, credentials=USER) as lookup:
        assert (await lookup.by_offset_id(sent.offset_id)).body == b"alone"
    async with asyncio.timeout(PATIENCE_S):
        assert await pushed(where, pop=False) == bodies
        assert await pushed(where, pop=True) == bodies
        assert await polled(where) == bodies
        assert await popped(where) == bodies
    async with PullConsumer(where, "lite", credentials=USER) as pull:  # a commit creates no group
        await pull.commit(sent.queue, 1)
        assert await pull.committed(sent.queue) == 1


async def pushed(where: str, *, pop: bool) -> set[bytes]:
    """Receive the messages by a push consumer."""
    consumer = Consumer(where, f"push-{pop}", credentials=USER, start=Start.FIRST, pop=pop)
    found: set[bytes] = set()
    complete = asyncio.Event()

    @consumer.on("Ours")
    async def handle(message: StoredMessage) -> None:
        found.add(message.body)
        if len(found) == 6:
            complete.set()

    async with consumer:
        await complete.wait()
    return found


async def polled(where: str) -> set[bytes]:
    """Receive the messages by a lite pull consumer."""
    found: set[bytes] = set()
    async with LitePullConsumer(where, "lite", credentials=USER, start=Start.FIRST) as consumer:
        await consumer.subscribe("Ours")
        while len(found) < 6:
            found |= {message.body for message in await consumer.poll()}
        await consumer.commit()
    return found


async def popped(where: str) -> set[bytes]:
    """Receive the messages by a simple consumer."""
    found: set[bytes] = set()
    async with SimpleConsumer(where, "simple", credentials=USER, start=Start.FIRST) as consumer:
        await consumer.subscribe("Ours")
        while len(found) < 6:
            messages = await consumer.receive(wait_ms=1_000)
            await consumer.ack_all(messages)
            found |= {message.body for message in messages}
    return found


@pytest.mark.parametrize("_name", JAVA)
@pytest.mark.parametrize("who", [None, Credentials(USER.access_key, "guessed"), Credentials("x", "y")])
async def test_a_java_broker_refuses_others(_name: str, who: Credentials | None, java_broker: Peer) -> None:
    async with Producer(java_broker.namesrv, credentials=who, tries=1) as producer:
        with pytest.raises(CometMQError, match=r"cannot be null|is not found|check signature failed"):
            await producer.send(Message("TBW102", b"no"))


@pytest.mark.parametrize("_name", JAVA)
async def test_a_java_broker_signs_its_registration_with_a_name_server_of_ours(
    _name: str, tmp_path: Path
) -> None:
    name_server = NameServer(port=0, access=NameServerAccess(supers=(USER,)))
    await name_server.start()
    broker = peers.rocketmq_broker(tmp_path / "store", name_server.address, AUTHENTICATING)
    try:
        peer = await asyncio.to_thread(broker.__enter__)
        try:
            route = name_server.routes.broker(peers.BROKER_NAME)
            assert route is not None and route.addrs == {0: peer.broker}
        finally:
            await asyncio.to_thread(broker.__exit__, None, None, None)
    finally:
        await name_server.stop()
