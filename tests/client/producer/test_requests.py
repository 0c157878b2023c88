"""Requests and replies of a producer, and a broker that does with them what a test wants."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from msgspec.structs import replace
from tests.client.brokers import Broker, cluster
from tests.kit.messages import HEADER, stored

from cometmq.client import Producer, TransactionProducer
from cometmq.client.producer.hooks import Attempt
from cometmq.errors import NetworkError, RemoteError, RequestTimeout, SettingsError
from cometmq.format import properties
from cometmq.message import Message
from cometmq.net.address import free_port
from cometmq.net.server import Session
from cometmq.wire.bodies.body import decode
from cometmq.wire.bodies.heartbeat import Heartbeat
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import fields

HOW_MUCH = Message("Prices", b"how much?")
PATIENCE_MS = 30_000
ASKED = {"CORRELATION_ID": "42", "REPLY_TO_CLIENT": "10.0.0.1@asker", "CLUSTER": "c"}


class Postman(Broker):
    """A broker that passes on a reply to each request, unless told otherwise.

    Attributes:
        seen: what it was asked, in its order.
        names: the client ids of those whose heartbeats came.
    """

    def __init__(self, name: str = "a", *codes: int | None) -> None:
        super().__init__(name, *codes)
        self.replies = True
        self.is_early = False
        self.seen: list[int] = []
        self.names: list[str] = []
        self.answers: asyncio.Queue[Command] = asyncio.Queue()
        self.asked = asyncio.Event()

    def handle(self, session: Session, commands: list[Command]) -> None:
        for command in commands:
            if command.is_response:
                self.answers.put_nowait(command)
                continue
            self.seen.append(command.code)
            if command.code == RequestCode.HEART_BEAT:
                self.names.append(decode(Heartbeat, command.body).client_id)
            if command.code != RequestCode.SEND_MESSAGE_V2 or not self.is_early:
                super().handle(session, [command])
            if command.code == RequestCode.SEND_MESSAGE_V2:
                self._pass_back(session, command)
                if self.is_early:
                    super().handle(session, [command])

    def _pass_back(self, session: Session, command: Command) -> None:
        self.asked.set()
        named = properties.decode(command.ext_fields["i"].encode())
        if not self.replies or named.get("REPLY_TO_CLIENT") not in self.names:
            return
        header = replace(
            HEADER, properties=properties.encode({"CORRELATION_ID": named["CORRELATION_ID"]}).decode()
        )
        code = RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT
        session.send(Command(code, 7, ext_fields=fields(header), body=command.body.upper()))


@asynccontextmanager
async def asking(broker: Postman, **options: Any) -> AsyncIterator[Producer]:
    async with cluster(broker) as name_server, Producer(name_server, **options) as producer:
        yield producer


@pytest.mark.parametrize("is_early", [False, True])
async def test_a_request_gives_the_reply_that_the_broker_passes_on(is_early: bool) -> None:
    broker = Postman()
    broker.is_early = is_early  # the reply is there before the answer to the send
    async with asking(broker) as producer:
        reply = await producer.request(HOW_MUCH, PATIENCE_MS)
        assert reply.body == b"HOW MUCH?"
        answer = await broker.answers.get()
        assert (answer.code, answer.opaque) == (ResponseCode.SUCCESS, 7)
    (sent,) = broker.sent
    named = properties.decode(sent.properties.encode())
    assert named["TTL"] == str(PATIENCE_MS)
    assert named["REPLY_TO_CLIENT"] == broker.names[0]


async def test_the_broker_knows_who_asks_before_it_is_sent_the_request() -> None:
    broker = Postman()
    async with asking(broker) as producer:
        await producer.send(Message("Prices", b"no request"))
        await producer.request(HOW_MUCH, PATIENCE_MS)
    sends = [at for at, code in enumerate(broker.seen) if code == RequestCode.SEND_MESSAGE_V2]
    assert RequestCode.HEART_BEAT in broker.seen[: sends[1]]


async def test_a_broker_that_is_gone_is_not_asked() -> None:
    broker = Postman("b")
    nobody = f"127.0.0.1:{free_port()}"
    async with cluster(broker, a=nobody) as name_server, Producer(name_server) as producer:
        for _ in range(4):
            assert (await producer.request(HOW_MUCH, PATIENCE_MS)).body == b"HOW MUCH?"


async def test_requests_wait_side_by_side() -> None:
    async with asking(Postman()) as producer:
        messages = [Message("Prices", b"%d x" % number) for number in range(100)]
        replies = await asyncio.gather(*(producer.request(one, PATIENCE_MS) for one in messages))
        assert [reply.body for reply in replies] == [b"%d X" % number for number in range(100)]


async def test_a_request_without_a_reply_times_out_and_says_what_to_do() -> None:
    broker = Postman()
    broker.replies = False
    async with asking(broker) as producer:
        words = r"no reply to message \w{32} of topic 'Prices' within 50 ms: see that a consumer replies, or"
        with pytest.raises(RequestTimeout, match=words):
            await producer.request(HOW_MUCH, 50)
        assert producer._replies._waiting == {}


async def test_the_time_limit_is_that_of_all_the_tries_together() -> None:
    async with asking(Postman("a", None, None, None)) as producer:
        with pytest.raises(RequestTimeout, match="within 50 ms"):
            await producer.request(HOW_MUCH, 50)


@pytest.mark.parametrize("timeout_ms", [0, -1])
async def test_a_request_without_time_is_refused(timeout_ms: int) -> None:
    broker = Postman()
    async with asking(broker) as producer:
        with pytest.raises(SettingsError, match=f"timeout_ms {timeout_ms}: a reply takes at least 1"):
            await producer.request(HOW_MUCH, timeout_ms)
    assert broker.sent == []


async def test_a_request_that_the_broker_refuses_fails_as_a_send_does() -> None:
    async with asking(Postman("a", ResponseCode.MESSAGE_ILLEGAL)) as producer:
        with pytest.raises(RemoteError, match="as told"):
            await producer.request(HOW_MUCH, PATIENCE_MS)
        assert producer._replies._waiting == {}


async def test_closing_the_producer_fails_what_waits() -> None:
    broker = Postman()
    broker.replies = False
    async with asking(broker) as producer:
        waiting = asyncio.create_task(producer.request(HOW_MUCH, PATIENCE_MS))
        await broker.asked.wait()
        await producer.__aexit__()
        with pytest.raises(NetworkError):
            await waiting
        with pytest.raises(NetworkError, match="this producer is closed"):
            await producer.request(HOW_MUCH, PATIENCE_MS)


async def test_who_gives_up_waiting_leaves_nothing_behind() -> None:
    broker = Postman()
    broker.replies = False
    async with asking(broker) as producer:
        waiting = asyncio.create_task(producer.request(HOW_MUCH, PATIENCE_MS))
        await broker.asked.wait()
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting
        assert producer._replies._waiting == {}


async def test_a_producer_of_transactions_gets_replies_too() -> None:
    def nobody_asks(_: object) -> Any:
        raise AssertionError

    async with (
        cluster(Postman()) as name_server,
        TransactionProducer(name_server, "shop", check=nobody_asks) as producer,
    ):
        assert (await producer.request(HOW_MUCH, PATIENCE_MS)).body == b"HOW MUCH?"


async def test_a_reply_goes_to_the_broker_that_had_the_request() -> None:
    brokers = [Postman(name) for name in "abc"]
    attempts: list[Attempt] = []

    class Look:
        def before_send(self, attempt: Attempt) -> None:
            attempts.append(attempt)

        def after_send(self, attempt: Attempt) -> None:
            pass

    async with cluster(*brokers) as name_server, Producer(name_server, hooks=[Look()]) as producer:
        for _ in range(9):
            await producer.send(HOW_MUCH)
        address = next(attempt.address for attempt in attempts if attempt.queue.broker_name == "b")
        for _ in range(4):
            request = replace(stored(**ASKED), store_host=address)
            result = await producer.reply(request, b"42 EUR", keys=("k",))
            assert result.queue.broker_name == "b"
    assert brokers[1].seen.count(RequestCode.SEND_REPLY_MESSAGE_V2) == 4
    reply = brokers[1].sent[-1]
    assert reply.topic == "c_REPLY_TOPIC"
    named = properties.decode(reply.properties.encode())
    assert (named["MSG_TYPE"], named["CORRELATION_ID"], named["KEYS"]) == ("reply", "42", "k")


async def test_a_reply_goes_anywhere_if_nobody_knows_the_broker_that_had_the_request() -> None:
    brokers = [Postman(name) for name in "ab"]
    async with cluster(*brokers) as name_server, Producer(name_server) as producer:
        names = {(await producer.reply(stored(**ASKED), b"x")).queue.broker_name for _ in range(4)}
    assert names == {"a", "b"}


async def test_a_reply_that_nobody_takes_is_told_of_and_not_sent_again() -> None:
    broker = Postman("a", ResponseCode.SYSTEM_ERROR)
    async with asking(broker) as producer:
        route = await producer._routes.get("Prices")
        (address,) = route.addresses["a"].values()
        with pytest.raises(RemoteError, match="as told"):
            await producer.reply(replace(stored(**ASKED), store_host=address), b"x")
    assert len(broker.sent) == 1
