"""A broker whose answers are those of another one, changed: registered beside it under a name of its own."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random

from cometmq.admin.cluster import ClusterAdmin
from cometmq.errors import NetworkError
from cometmq.net.client import Connections
from cometmq.net.server import Server
from cometmq.net.session import Session
from cometmq.wire.bodies.registration import Registration, encode
from cometmq.wire.bodies.topic import TopicConfig, TopicTable
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.command import Command, response
from cometmq.wire.headers import BrokerHeader, Header, RegisterBrokerHeader, fields

NAME = "broker-fuzzed"
JUNK = (
    *(b"", b"{", b"[]", b"null", b"7", b'"x"', b"\xff\xfe", b"[" * 5_000, b"9" * 5_000, b"\0" * 8, b"{}"),
    *(b"true", b'"\\ud800"', b'{"table":7}', b'{"table":{"a":[]}}'),
)
"""What a number, a text, or a whole answer is replaced by."""
VALUES = (b"9" * 30, b"9" * 400, b"-1", b"-9223372036854775809", b"1e400", b"NaN", b"0.5", *JUNK)
_NUMBER = re.compile(rb"-?[0-9.]+")
_TEXT = re.compile(rb'"[^"]*"')

Change = Callable[[Command], Command | bytes]


def nonsense(answer: Command) -> Command:
    """Turn an answer into a success whose body cannot be read."""
    answer.code = ResponseCode.SUCCESS
    answer.body = b"{"
    return answer


class Mutations:
    """Changes answers at random, the same way for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def __call__(self, answer: Command) -> Command | bytes:
        random = self._random
        match random.randrange(12):
            case 0:
                return random.randbytes(random.randrange(1, 200))  # no frame at all
            case 1:
                answer.code = random.choice((-1, 1, 2, 16, 22, 2**31 - 1))
                answer.remark = random.choice((None, "", "x" * 300, "\x1b[31m\n<b>"))
            case 2:
                answer.ext_fields = {name: random.choice(("", "x", "9" * 40)) for name in answer.ext_fields}
            case 3:
                answer.body = random.choice(JUNK)
            case 4:
                answer.body = answer.body[: random.randrange(len(answer.body) + 1)]
            case 5:
                at = sorted(random.randrange(len(answer.body) + 1) for _ in range(2))
                answer.body = answer.body[: at[0]] + answer.body[at[1] :]
            case 6:
                body = bytearray(answer.body)
                for _ in range(min(len(body), 5)):
                    body[random.randrange(len(body))] = random.randrange(256)
                answer.body = bytes(body)
            case 7 | 8:
                answer.body = self._replaced(_TEXT, answer.body)
            case _:
                answer.body = self._replaced(_NUMBER, answer.body)
        return answer

    def _replaced(self, pattern: re.Pattern[bytes], body: bytes) -> bytes:
        found = list(pattern.finditer(body))
        if not found:
            return body
        one = self._random.choice(found)
        return body[: one.start()] + self._random.choice(VALUES) + body[one.end() :]


class FuzzedBroker:
    """Passes each request on to a real broker, and its answer back, changed."""

    def __init__(self, connections: Connections, real: str, change: Change) -> None:
        self.change = change
        self._connections = connections
        self._real = real
        self._answering: set[asyncio.Task[None]] = set()

    def handle(self, session: Session, commands: list[Command]) -> None:
        for command in commands:
            task = asyncio.create_task(self._answer(session, command))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)

    def closed(self, session: Session) -> None:
        pass

    async def _answer(self, session: Session, command: Command) -> None:
        asked = Command(command.code, ext_fields=command.ext_fields, body=command.body)
        try:
            answer = await self._connections.request(self._real, asked)
        except NetworkError:
            return  # the test has ended
        changed = self.change(response(command, answer.code, answer.remark, answer.ext_fields, answer.body))
        session.send(changed)


@asynccontextmanager
async def fuzzed_broker(
    admin: ClusterAdmin, change: Change = nonsense, *topics: str
) -> AsyncIterator[FuzzedBroker]:
    """Run such a broker beside the only master of a cluster, as one that has a queue of some topics."""
    (real,) = (await admin.masters()).values()
    broker = FuzzedBroker(admin.connections, real, change)
    server = Server(broker)
    address = f"127.0.0.1:{await server.start('127.0.0.1', 0)}"
    await register(admin, NAME, address, *topics)
    try:
        yield broker
    finally:
        await _tell_name_server(
            admin, RequestCode.UNREGISTER_BROKER, BrokerHeader(NAME, address, "DefaultCluster", 0)
        )
        await server.stop()


async def register(admin: ClusterAdmin, name: str, address: str, *topics: str) -> None:
    """Register a master at the name server, as one that has a queue of some topics.

    There is another one then: a name server takes a single topic for a change of what it knows.
    """
    header = RegisterBrokerHeader(name, address, "DefaultCluster", 0, address)
    configs = {topic: TopicConfig(topic, 1, 1) for topic in ("only-there", *topics)}
    body = encode(Registration(table=TopicTable(topics=configs))) if topics else b""
    await _tell_name_server(admin, RequestCode.REGISTER_BROKER, header, body)


async def _tell_name_server(
    admin: ClusterAdmin, code: RequestCode, header: Header, body: bytes = b""
) -> None:
    command = Command(code, ext_fields=fields(header), body=body)
    answer = await admin.connections.request(admin.name_servers[0], command)
    assert answer.code == 0, answer
