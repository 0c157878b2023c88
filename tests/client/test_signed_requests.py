"""Each client signs each of its requests, to name servers and brokers, with its credentials."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest
from tests.signatures import USER, Watched, watching

from cometmq import (
    Consumer,
    LitePullConsumer,
    Lookup,
    Message,
    MessageQueue,
    Producer,
    PullConsumer,
    SimpleConsumer,
    Start,
    StoredMessage,
    TransactionProducer,
    TransactionState,
)
from cometmq.admin.broker_status import broker_status
from cometmq.admin.cluster import brokers
from cometmq.admin.messages import by_id
from cometmq.admin.topics import TopicAdmin
from cometmq.blocking import Producer as BlockingProducer
from cometmq.wire.codes import RequestCode

WAIT_S: Final = 60


@pytest.fixture
async def watched(tmp_path: Path) -> AsyncIterator[Watched]:
    async with watching(tmp_path) as found:
        yield found


async def test_a_broker_signs_its_registration(watched: Watched) -> None:
    watched.check(RequestCode.REGISTER_BROKER)


async def test_a_producer_signs_whatever_it_sends(watched: Watched) -> None:
    async with Producer(watched.name_server, credentials=USER, linger_ms=1) as producer:
        await producer.send(Message("Orders", b"alone"))
        await producer.send_many([Message("Orders", b"one"), Message("Orders", b"two")])
        await producer.send_oneway(Message("Orders", b"quietly"))
        await producer.queues("Orders")
    watched.check(
        RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE
    )


async def test_a_transaction_and_its_presence_are_signed(watched: Watched) -> None:
    async def commit(_: object) -> TransactionState:
        return TransactionState.COMMIT

    async with TransactionProducer(watched.name_server, "shop", check=commit, credentials=USER) as producer:
        await producer.send_in_transaction(Message("Orders", b"paid"), commit)
    watched.check(RequestCode.HEART_BEAT, RequestCode.END_TRANSACTION, RequestCode.UNREGISTER_CLIENT)


@pytest.mark.parametrize("pop", [False, True])
async def test_a_consumer_signs(watched: Watched, pop: bool) -> None:
    async with Producer(watched.name_server, credentials=USER) as producer:
        await producer.send(Message("Orders", b"paid"))
    consumer = Consumer(watched.name_server, "billing", credentials=USER, start=Start.FIRST, pop=pop)
    got = asyncio.Event()

    @consumer.on("Orders")
    async def handle(_: StoredMessage) -> None:
        got.set()

    async with consumer, asyncio.timeout(WAIT_S):
        await got.wait()
    own = (
        (RequestCode.POP_MESSAGE, RequestCode.BATCH_ACK_MESSAGE)
        if pop
        else (RequestCode.PULL_MESSAGE, RequestCode.UPDATE_CONSUMER_OFFSET)
    )
    watched.check(RequestCode.HEART_BEAT, RequestCode.UNREGISTER_CLIENT, *own)


async def test_consumers_that_are_asked_sign(watched: Watched) -> None:
    where, credentials = watched.name_server, USER
    async with Producer(where, credentials=credentials) as producer:
        await producer.send(Message("Orders", b"paid"))
    async with PullConsumer(where, "audit", credentials=credentials) as consumer:
        for queue in await consumer.queues("Orders"):
            await consumer.pull(queue, 0)
            await consumer.commit(queue, 1)
    async with LitePullConsumer(where, "lite", credentials=credentials, start=Start.FIRST) as lite:
        await lite.subscribe("Orders")
        while not await lite.poll():
            continue
    async with SimpleConsumer(where, "simple", credentials=credentials, start=Start.FIRST) as simple:
        await simple.subscribe("Orders")
        while not (messages := await simple.receive(wait_ms=1_000)):
            continue
        await simple.ack_all(messages)
    watched.check(RequestCode.PULL_MESSAGE, RequestCode.POP_MESSAGE, RequestCode.UPDATE_CONSUMER_OFFSET)


async def test_what_operators_and_lookups_ask_is_signed(watched: Watched) -> None:
    async with TopicAdmin(watched.name_server, credentials=USER) as admin:
        await admin.create("Orders", queues=1)
        async with Producer(watched.name_server, credentials=USER) as producer:
            sent = await producer.send(Message("Orders", b"paid", keys=("42",)))
        assert await by_id(admin, sent.offset_id)
        assert [line.trouble for line in await brokers(admin)] == [None]
    async with Lookup(watched.name_server, credentials=USER) as lookup:
        await lookup.by_key("Orders", "42")
    await broker_status(watched.broker, credentials=USER)
    watched.check(
        RequestCode.UPDATE_AND_CREATE_TOPIC,
        RequestCode.QUERY_MESSAGE,
        RequestCode.GET_BROKER_RUNTIME_INFO,
        RequestCode.GET_BROKER_CLUSTER_INFO,
    )


async def test_clients_without_credentials_take_those_of_the_environment(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMETMQ_ACCESS_KEY", USER.access_key)
    monkeypatch.setenv("COMETMQ_SECRET_KEY", USER.secret_key)

    def send() -> None:
        with BlockingProducer(watched.name_server) as producer:
            producer.send(Message("Orders", b"paid"))

    await asyncio.to_thread(send)
    async with PullConsumer(watched.name_server, "audit") as consumer:
        await consumer.max_offset(MessageQueue("Orders", "broker-a", 0))
    watched.check(RequestCode.SEND_MESSAGE_V2, RequestCode.GET_MAX_OFFSET)
