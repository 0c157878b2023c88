"""The largest legal requests of every code, and the work that each makes for the loop.

Work is counted, not timed: one for each call that Python makes, in whichever turn of the loop has most of
them. ``python -m tests.rules.largest`` writes the figures into the table of ``docs/back-pressure.md``.
"""

import asyncio
import json
import struct
import sys
import tempfile
import threading
from asyncio import events
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from cProfile import Profile
from pathlib import Path
from typing import Final, NamedTuple
from unittest.mock import patch

import msgspec
from tests.broker.conftest import Bench, serving
from tests.broker.desk import USUAL, Wire
from tests.kit.refusals import kinds, plain

from cometmq.broker import client_calls
from cometmq.broker.name_servers.topic_routes import _KnownRoute
from cometmq.cluster.route import READ, WRITE, QueueCounts, Route
from cometmq.format.host import pack_host
from cometmq.format.layout import QUEUE_COUNT_MAX
from cometmq.namesrv.name_server import CONFIG_CHANGES, NameServer
from cometmq.net.server import Server, Session
from cometmq.store import NewMessage
from cometmq.wire.bodies import GroupConfig, MessageModeRequest, TopicConfig
from cometmq.wire.bodies.body import LIMITS
from cometmq.wire.codes import RequestCode
from cometmq.wire.connection import FrameReader
from cometmq.wire.frame import Command
from cometmq.wire.requests import REQUESTS, SENDS

WORK_MAX: Final = 150_000
"""What a turn may take: 50 ms of a slow machine's time, where a call takes a third of a microsecond."""
HOST: Final = pack_host("127.0.0.1", 10911)
HEADER_SIZE: Final = 500_000
"""Nearly as many bytes as a frame's header may have."""
FRAME_SIZE: Final = 16 * 1024 * 1024 - 2_000

Item = Callable[[int], str]
Sizes = Mapping[tuple[str, int], int]
ALL: Final[Sizes] = {}


class Largest(NamedTuple):
    """What the largest request of a code has cost: its bytes, and the work."""

    size: int
    work: int


def frame(code: int, fields: dict[str, str], body: bytes = b"") -> bytes:
    header = {"code": code, "extFields": fields, "flag": 0, "language": "JAVA", "opaque": 1, "version": 453}
    data = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    return b"".join((struct.pack(">iI", 4 + len(data) + len(body), len(data)), data, body))


def filled(size: int, begin: str, item: Item, end: str, count_max: int = 10**9) -> bytes:
    """Return JSON of as many items as fit."""
    items: list[str] = []
    left = size - len(begin) - len(end)
    while len(items) < count_max:
        text = item(len(items))
        left -= len(text) + 1
        if left < 0:
            break
        items.append(text)
    return (begin + ",".join(items) + end).encode()


PAGE: Final = Path(__file__).parents[2] / "docs" / "back-pressure.md"
TABLE_HEAD: Final = "| asked | request | bytes | calls, at most |\n|---|---|---|---|\n"
MANY: Final = 2_000

REGISTER: Final = {
    "brokerName": "broker-a",
    "brokerAddr": "192.0.2.1:10911",
    "clusterName": "T",
    "brokerId": "0",
    "haServerAddr": "192.0.2.1:10912",
}
TOPICS: Final[tuple[str, Item, str]] = (
    '{"topicConfigSerializeWrapper":{"topicConfigTable":{',
    lambda n: f'"t{n}":{{"topicName":"t{n}"}}',
    "}}}",
)

QUEUE: Final[Item] = lambda n: f'{{"topic":"T","brokerName":"broker-a","queueId":{n}}}'  # noqa: E731 one of many
LOCK: Final = ('{"consumerGroup":"T","clientId":"c","mqSet":[', QUEUE, "]}")

BODIES: Final[dict[int, list[tuple[str, Item, str]]]] = {
    RequestCode.HEART_BEAT: [
        ('{"clientID":"c","producerDataSet":[', lambda n: f'{{"groupName":"p{n}"}}', "]}"),
        ('{"clientID":"c","consumerDataSet":[', lambda n: f'{{"groupName":"c{n}"}}', "]}"),
        (
            '{"clientID":"c","consumerDataSet":[{"groupName":"T","subscriptionDataSet":[',
            lambda n: f'{{"topic":"t{n}","subString":"a||b"}}',
            "]}]}",
        ),
        (
            '{"clientID":"c","consumerDataSet":[',
            lambda n: f'{{"groupName":"d{n}","subscriptionDataSet":[{{"topic":"t","subString":"a||b"}}]}}',
            "]}",
        ),
    ],
    RequestCode.LOCK_BATCH_MQ: [LOCK],
    RequestCode.UNLOCK_BATCH_MQ: [LOCK],
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: [
        ('{"topicConfigList":[', lambda n: f'{{"topicName":"n{n}"}}', "]}"),
        ('{"topicConfigList":[{"topicName":"n","attributes":{', lambda n: f'"+x{n}":""', "}}]}"),
    ],
    RequestCode.QUERY_ASSIGNMENT: [
        (f'{{"topic":"T","consumerGroup":"T","clientId":"c1","messageModel":"{model}","more":[', str, "]}")
        for model in ("BROADCASTING", 'CLUSTERING","strategyName":"AVG')
    ],
    RequestCode.SET_MESSAGE_REQUEST_MODE: [
        ('{"topic":"T","consumerGroup":"T","mode":"POP","more":[', str, "]}")
    ],
    RequestCode.REGISTER_BROKER: [TOPICS],
    RequestCode.REGISTER_TOPIC_IN_NAMESRV: [
        ('{"queueDatas":[', lambda n: f'{{"brokerName":"b{n}","perm":6}}', "]}"),
    ],
    RequestCode.QUERY_DATA_VERSION: [("{", lambda n: f"{n}:{n}", "}")],
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: [
        ('{"groupConfigList":[', lambda n: f'{{"groupName":"n{n}"}}', "]}"),
        ('{"groupConfigList":[{"groupName":"n","attributes":{', lambda n: f'"+x{n}":""', "}}]}"),
    ],
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: [
        ('{"groupName":"T","attributes":{', lambda n: f'"+a{n}":""', "}}"),
    ],
}
"""What bodies are made of: a beginning, items and an end."""


def bodies(code: int) -> Iterator[bytes]:
    """Yield the bodies of requests of a code, as large as they may be and as large as a frame can be.

    What is too large is refused: so each is tried just short enough, too.
    """
    yield b""
    for begin, item, end in BODIES.get(code, ()):
        yield filled(LIMITS.usual_bytes, begin, item, end)
        yield filled(LIMITS.list_bytes, begin, item, end)
        yield filled(LIMITS.list_bytes, begin, item, end, LIMITS.list_items)
    if code in BODIES:
        yield filled(FRAME_SIZE, *BODIES[code][-1])
    yield b"x" * (FRAME_SIZE - HEADER_SIZE)


def frames(code: int) -> Iterator[bytes]:
    """Yield the largest requests of a code: each text as long as it can be, and each body."""
    name = RequestCode(code)
    header_type = REQUESTS[name].header if name in REQUESTS else None
    good = plain(header_type) if header_type is not None else {}
    if "SEND" in name.name and "a" in good:
        good |= USUAL | {"b": "T"}
    if code == RequestCode.REGISTER_BROKER:
        good |= REGISTER | {"brokerName": "broker-b", "brokerAddr": "192.0.2.2:10911"}
    for body in bodies(code):
        yield frame(code, good, body)
    if header_type is None:
        return
    for field in msgspec.structs.fields(header_type):
        if str in kinds(field.type):
            for pattern in ("a;", "+a=b,", "a\x01b\x02"):
                text = pattern * (HEADER_SIZE // (len(json.dumps(pattern)) - 2))
                yield frame(code, good | {field.encode_name: text}, b"x")
    yield frame(code, good | {f"x{n}": "" for n in range(30_000)})


@contextmanager
def counted() -> Iterator[list[int]]:
    """Count the calls of each turn of the loop, by the profiler that is written in C: others take longer.

    Loops of other threads go on uncounted: two threads at one profiler end in a segmentation fault.
    """
    turns = [0]
    profiler, run, thread = Profile(subcalls=False), events.Handle._run, threading.get_ident()

    def count(handle: events.Handle) -> None:
        if threading.get_ident() != thread:
            return run(handle)
        profiler.enable()
        try:
            run(handle)
        finally:
            profiler.disable()
            turns.append(sum(one.callcount for one in profiler.getstats()))
            profiler.clear()
        return None

    events.Handle._run = count  # type: ignore[assignment, method-assign]  # the loop has no hook for this
    try:
        yield turns
    finally:
        events.Handle._run = run  # type: ignore[method-assign]  # as it was


class Answered(Wire):
    """The far end of a session, for which one can wait to be answered."""

    def __init__(self) -> None:
        super().__init__("127.0.0.1")
        self.is_answered = asyncio.Event()

    def write(self, data: bytes) -> None:
        super().write(data)
        self.is_answered.set()

    def writelines(self, data: Sequence[bytes]) -> None:
        super().writelines(data)
        self.is_answered.set()


async def work_of(server: Server, data: bytes, *, stays: bool = False) -> int:
    """Return the work of the turn that has most of it, until a request is answered; then the client goes."""
    session, wire = Session(server.shared), Answered()
    session.connection_made(wire)  # type: ignore[arg-type]  # it is one as far as a session cares
    with counted() as turns:
        session.data_received(data)
        async with asyncio.timeout(300):
            await wire.is_answered.wait()
        most = max(turns)
    if not stays:
        server.remove(session)
    assert FrameReader().receive_data(wire.data)
    return most


async def largest(server: Server, code: int, size: int | None) -> Largest:
    """Return the costliest request of a code: of all, or of those of a size."""
    some = (data for data in frames(code) if size is None or len(data) == size)
    costs = [Largest(len(data), await work_of(server, data)) for data in some]
    return max(costs, key=lambda cost: cost.work)


def row(where: str, code: int, found: Largest) -> str:
    """Return a row of the page's table; the work is rounded up."""
    return f"| {where} | {code} {RequestCode(code).name} | {found.size:,} | {rounded(found.work):,} |"


def rounded(work: int) -> int:
    """Return a number rounded up to its first two digits, and at least to 1,000."""
    unit = max(10 ** (len(str(work)) - 2), 1_000)
    return int(-(-work // unit) * unit)


async def broker_rows(root: Path, sizes: Sizes = ALL) -> AsyncIterator[tuple[str, int, Largest]]:
    """Measure a broker with many topics, groups, members and offsets, and queues as many as there can be.

    Members do not answer what it asks them: how long it waits for that is no work, so it does not wait long.

    Args:
        sizes: of the requests to measure, for each server and code; all of a code that is not there.
    """
    async with AsyncExitStack() as stack:
        stack.enter_context(patch.object(client_calls, "ANSWER_S_MAX", 0.01))
        bench = await stack.enter_async_context(serving(root))
        parts = bench.parts
        parts.topics.put_all(TopicConfig(topic=f"s{n}") for n in range(MANY))
        for n in range(MANY):
            parts.groups.put(GroupConfig(group=f"s{n}"))
        server = Server(parts.requests, clock=bench.clock)
        join(server, "T", MANY)
        route = Route("T", (QueueCounts("broker-a", QUEUE_COUNT_MAX, QUEUE_COUNT_MAX, READ | WRITE),), {})
        parts.assignments._routes._known["T"] = _KnownRoute(route, sys.maxsize)
        for code in sorted([*parts.requests._handlers, *SENDS]):
            parts.topics.put(TopicConfig(topic="T", read_queue_count=QUEUE_COUNT_MAX))
            parts.groups.put(GroupConfig(group="T"))
            await parts.topics.settled()
            await parts.groups.settled()
            fill(bench, code)
            await parts.modes.settled()
            yield "broker", code, await largest(server, code, sizes.get(("broker", code)))


def join(server: Server, group: str, count: int) -> None:
    """Connect so many members of a group."""
    for n in range(count):
        session = Session(server.shared)
        session.connection_made(Wire("127.0.0.1"))  # type: ignore[arg-type]  # it is one as far as it cares
        body = f'{{"clientID":"c{n}","consumerDataSet":[{{"groupName":"{group}"}}]}}'.encode()
        server.handler.handle(session, [Command(RequestCode.HEART_BEAT, body=body)])


def fill(bench: Bench, code: int) -> None:
    """Create what the largest request of a code needs.

    Messages and offsets in many queues of a topic, before a cleaning in topics that nobody has; many modes.
    """

    def append(places: Iterable[tuple[str, int]]) -> None:
        bench.store.append([NewMessage(*place, b"", b"", 0, HOST, HOST) for place in places])

    if not bench.store.max_queue_offset("T", 0):
        append(("T", queue_id) for queue_id in range(2 * MANY))
    bench.parts.offsets.record_pulls((f"{topic}@{group}", 0, 1, 1, 1) for topic, group in pairs())
    if code in {RequestCode.DELETE_SUBSCRIPTIONGROUP, RequestCode.GET_ALL_MESSAGE_REQUEST_MODE}:
        for topic, group in pairs():
            bench.parts.modes.put(MessageModeRequest(topic, group))
    if code == RequestCode.CLEAN_UNUSED_TOPIC:
        append((f"u{n}", 0) for n in range(MANY))
    bench.store._upkeep.catch_up()  # plain operations index a message at the price of sixty calls


def pairs() -> Iterator[tuple[str, str]]:
    """Yield pairs of topics and groups: one topic with many groups, one group with many topics."""
    for n in range(MANY):
        yield "T", f"s{n}"
        yield f"s{n}", "T"


async def name_server_rows(sizes: Sizes = ALL) -> AsyncIterator[tuple[str, int, Largest]]:
    """Measure a name server that knows a broker with many topics: for ``sizes`` see ``broker_rows``."""
    name_server = NameServer(port=0)
    await name_server.start()
    register = frame(RequestCode.REGISTER_BROKER, REGISTER, filled(LIMITS.list_bytes, *TOPICS, MANY))
    await work_of(name_server._server, register, stays=True)
    codes = {*name_server._requests._answers, *CONFIG_CHANGES, RequestCode.REGISTER_BROKER}
    for code in sorted(codes):
        size = sizes.get(("name server", code))
        yield "name server", code, await largest(name_server._server, code, size)
    for session in list(name_server._server.sessions):
        name_server._server.remove(session)
    await name_server.stop()


def main() -> None:
    """Write the table."""
    text = PAGE.read_text()
    begin = text.index(TABLE_HEAD) + len(TABLE_HEAD)
    rest = text[begin:].lstrip("|").split("\n\n", 1)[1]

    async def rows() -> list[str]:
        with tempfile.TemporaryDirectory() as root:
            found = [row(*measured) async for measured in broker_rows(Path(root))]
        return found + [row(*measured) async for measured in name_server_rows()]

    lines = asyncio.run(rows())
    PAGE.write_text(text[:begin] + "\n".join(lines) + "\n\n" + rest)


if __name__ == "__main__":
    main()
