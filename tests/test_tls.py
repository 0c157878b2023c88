"""Each kind of client with servers that accept TLS only: name server and broker alike."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.certificates import Authority
from tests.live import Live, serving

from cometmq import (
    TLS,
    Consumer,
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
    blocking,
)
from cometmq.admin.broker_status import broker_status
from cometmq.admin.messages import by_key
from cometmq.admin.topics import TopicAdmin
from cometmq.errors import NetworkError, TLSError
from cometmq.net.tls.settings import ClientAuth, TlsMode
from cometmq.wire import settings_text
from cometmq.wire.codes import RequestCode

LIMIT_S = 60
COUNT = 20


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def tls(authority: Authority) -> TLS:
    """Trust the authority, and show a certificate of it."""
    own = authority.certify("client")
    return TLS(ca_file=authority.cert, cert_file=own.cert, key_file=own.key)


@pytest_asyncio.fixture
async def live(authority: Authority, tmp_path: Path) -> AsyncIterator[Live]:
    """Run servers that accept TLS only, from clients with certificates only; the broker has one, too."""
    made, own = authority.certify(), authority.certify("broker", password="secret")
    settings: dict[str, Any] = {
        "tls_server_mode": TlsMode.ENFORCING,
        "tls_server_cert_path": str(made.cert),
        "tls_server_key_path": str(made.key),
        "tls_server_need_client_auth": ClientAuth.REQUIRE,
        "tls_server_trust_cert_path": str(authority.cert),
        "tls_client_trust_cert_path": str(authority.cert),
        "tls_client_cert_path": str(own.cert),
        "tls_client_key_path": str(own.key),
        "tls_client_key_password": "secret",
    }
    async with serving(tmp_path / "store", **settings) as live:
        yield live


async def test_messages_reach_each_kind_of_consumer(live: Live, tls: TLS) -> None:
    async with Producer(live.name_server, tls=tls) as producer:
        for number in range(COUNT):
            await producer.send(Message("orders", b"%d" % number, keys=("k",)))
    bodies = sorted(b"%d" % number for number in range(COUNT))

    async with PullConsumer(live.name_server, "pulling", tls=tls) as pulling:
        queues = await pulling.queues("orders")
        found = [message.body for queue in queues async for message in pulling.messages(queue)]
    assert sorted(found) == bodies

    async with (
        LitePullConsumer(live.name_server, "polling", start=Start.FIRST, tls=tls) as polling,
        SimpleConsumer(live.name_server, "popping", start=Start.FIRST, tls=tls) as popping,
        asyncio.timeout(LIMIT_S),
    ):
        await polling.subscribe("orders")
        await popping.subscribe("orders")
        polled: list[bytes] = []
        popped: list[bytes] = []
        while len(polled) < COUNT:
            polled += [message.body for message in await polling.poll()]
        while len(popped) < COUNT:
            received = await popping.receive()
            await popping.ack_all(received)
            popped += [message.body for message in received]
    assert sorted(polled) == sorted(popped) == bodies

    for pop in (False, True):
        pushed: list[bytes] = []
        complete = asyncio.Event()
        consumer = Consumer(live.name_server, f"pushed-{pop}", pop=pop, start=Start.FIRST, tls=tls)

        @consumer.on("orders")
        async def handle(
            message: StoredMessage, pushed: list[bytes] = pushed, complete: asyncio.Event = complete
        ) -> None:
            pushed.append(message.body)
            if len(pushed) == COUNT:
                complete.set()

        async with consumer:
            await asyncio.wait_for(complete.wait(), LIMIT_S)
        assert sorted(pushed) == bodies


async def test_operators_and_transactions_connect_by_tls_too(live: Live, tls: TLS) -> None:
    def commit(_: object) -> TransactionState:
        return TransactionState.COMMIT

    async with TransactionProducer(live.name_server, "paying", check=commit, tls=tls) as paying:
        await paying.send_in_transaction(Message("paid", b"1", keys=("k",)), commit)
    async with TopicAdmin(live.name_server, tls=tls) as admin, Lookup(live.name_server, tls=tls) as lookup:
        assert "paid" in await admin.topics()
        (message,) = [one async for one in by_key(admin, "paid", "k")]
        assert await lookup.by_offset_id(message.offset_id) == message
        settings = settings_text.decode((await admin.ask(live.broker, RequestCode.GET_BROKER_CONFIG)).body)
        assert (settings["tlsServerMode"], settings["tlsClientKeyPassword"]) == ("enforcing", "***")
    assert (await broker_status(live.broker, tls=tls)).not_writable == ""


async def test_threads_have_it_as_tasks_do(live: Live, tls: TLS) -> None:
    def send() -> None:
        with blocking.Producer(live.name_server, tls=tls) as producer:
            producer.send(Message("orders", b"1"))

    await asyncio.to_thread(send)


async def test_plain_clients_and_those_without_a_certificate_get_nothing(
    live: Live, authority: Authority
) -> None:
    for tls in (None, TLS(ca_file=authority.cert)):
        async with TopicAdmin(live.name_server, tls=tls) as admin:
            with pytest.raises(NetworkError):
                await admin.topics()
        with pytest.raises(NetworkError):
            await broker_status(live.broker, tls=tls)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("authority", r"\(ca_file, --tls-ca\)"),
        ("certificate", "it does not accept this client's certificate: it has expired"),
    ],
)
async def test_what_no_waiting_mends_ends_a_start_and_a_send(
    live: Live, authority: Authority, tmp_path: Path, wrong: str, words: str
) -> None:
    old = wrong == "certificate"
    trusted = authority if old else Authority(tmp_path, "stranger")
    own = authority.certify("client", ends_in=timedelta(days=-1 if old else 1))
    tls = TLS(ca_file=trusted.cert, cert_file=own.cert, key_file=own.key)
    consumer = Consumer(live.name_server, "pushing", tls=tls)
    consumer.subscribe("orders", print)
    async with asyncio.timeout(LIMIT_S):
        with pytest.raises(TLSError, match=words):
            await consumer.start()
        async with Producer(live.name_server, timeout_ms=1_000 * LIMIT_S, tls=tls) as producer:
            with pytest.raises(TLSError, match=words):
                await producer.send(Message("orders", b"1"))
