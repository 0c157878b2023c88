"""A broker that keeps half messages, in a way: it takes note of how they end, and asks what a test wants."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.client.brokers import Broker, cluster

from cometmq.client import TransactionProducer, TransactionState
from cometmq.format import properties
from cometmq.format.host import pack_host
from cometmq.format.message_id import offset_message_id
from cometmq.format.record import Record, encode
from cometmq.message import StoredMessage
from cometmq.net.server import Session
from cometmq.wire.bodies.body import decode
from cometmq.wire.bodies.heartbeat import Heartbeat
from cometmq.wire.codes import RequestCode
from cometmq.wire.command import ONEWAY_FLAG
from cometmq.wire.frame import Command
from cometmq.wire.headers import CheckTransactionStateHeader, EndTransactionHeader, fields, parse

PATIENCE_S = 60
HOST = pack_host("127.0.0.1", 10911)
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
GROUP = "shop"
NOBODY_KNOWS = TransactionState.UNKNOWN


class HalfBroker(Broker):
    """A broker for one producer of transactions.

    Attributes:
        known: set when a producer's heartbeat has come; it is what is asked.
        answers: what it answered to requests.
    """

    offset_id = offset_message_id(HOST, 4_711)
    queue_offset = 5

    def __init__(self, name: str = "a", *codes: int | None) -> None:
        super().__init__(name, *codes)
        self.known = asyncio.Event()
        self.answers: asyncio.Queue[Command] = asyncio.Queue()
        self._session: Session | None = None
        self._ends: asyncio.Queue[tuple[EndTransactionHeader, str | None]] = asyncio.Queue()

    def handle(self, session: Session, commands: list[Command]) -> None:
        for command in commands:
            if command.is_response:
                self.answers.put_nowait(command)
                continue
            if command.code == RequestCode.END_TRANSACTION:
                assert command.is_oneway
                self._ends.put_nowait((parse(EndTransactionHeader, command.ext_fields), command.remark))
                continue
            if command.code == RequestCode.HEART_BEAT:
                assert [data.group for data in decode(Heartbeat, command.body).producers] == [GROUP]
                self._session = session
                self.known.set()
            super().handle(session, [command])

    async def told(self) -> tuple[EndTransactionHeader, str | None]:
        """Wait for the end of a half message, or for an answer to a check; give it with its remark."""
        async with asyncio.timeout(PATIENCE_S):
            return await self._ends.get()

    @property
    def was_told(self) -> bool:
        """Whether something came that no test has waited for."""
        return not self._ends.empty()

    async def ask(self, body: bytes | None = None, count: int = 1, **named: str) -> None:
        """Ask what became of a half message."""
        header = CheckTransactionStateHeader(7, 4_712, HALF_TOPIC, "ID", "ID")
        record = half_record(**named) if body is None else body
        request = Command(
            RequestCode.CHECK_TRANSACTION_STATE, flag=ONEWAY_FLAG, ext_fields=fields(header), body=record
        )
        await self.send(*[request] * count)

    async def send(self, *requests: Command) -> None:
        """Send requests to the producer, as soon as it is known."""
        async with asyncio.timeout(PATIENCE_S):
            await self.known.wait()
        assert self._session is not None
        for request in requests:
            self._session.send(request)


def half_record(group: str = GROUP, key: str = "42") -> bytes:
    """Build the record of a half message as a broker gives it with a check."""
    by_name = {"TRAN_MSG": "true", "PGROUP": group, "UNIQ_KEY": "ID", "KEYS": key}
    return encode(
        Record("Orders", b"paid", properties.encode(by_name), 1, 7, 4_712, 0, 0, 1_000, HOST, 2_000, HOST)
    )


async def nobody_asks(_: StoredMessage) -> TransactionState:
    """Be a check that is not to be called."""
    raise AssertionError("nobody was to ask")


@asynccontextmanager
async def transactions(
    broker: HalfBroker, check: Any = nobody_asks, **options: Any
) -> AsyncIterator[TransactionProducer]:
    """Provide a producer of transactions whose broker knows it."""
    async with (
        asyncio.timeout(PATIENCE_S),
        cluster(broker) as name_server,
        TransactionProducer(name_server, GROUP, check=check, topics=["Orders"], **options) as producer,
    ):
        await broker.known.wait()
        yield producer
