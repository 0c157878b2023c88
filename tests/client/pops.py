"""A broker that answers pops by their wire types, for tests of clients that pop."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from tests.client.brokers import RoutesOnly

from cometmq.client import Consumer, Start
from cometmq.client.requests.pop_requests import PopOptions, PopRequests
from cometmq.client.requests.queue_requests import QueueRequests
from cometmq.client.routes import Routes
from cometmq.format import properties
from cometmq.format.pop import bit_set
from cometmq.format.pop.names import RetryFlag, flag_of
from cometmq.format.pop.offset_info import PoppedQueue, encode_begin_offsets, encode_offsets
from cometmq.format.record import Record, encode
from cometmq.io.clock import ManualClock
from cometmq.net import inproc
from cometmq.net.client import Connections
from cometmq.net.server import Server, Session
from cometmq.wire.bodies.body import decode
from cometmq.wire.bodies.body import encode as encode_body
from cometmq.wire.bodies.heartbeat import Heartbeat
from cometmq.wire.bodies.pop import AssignmentResponse, BatchAckRequest
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command, response
from cometmq.wire.headers import (
    OffsetResponseHeader,
    QueryConsumerOffsetHeader,
    SendBackHeader,
    UpdateConsumerOffsetHeader,
    fields,
    parse,
)
from cometmq.wire.headers.pop import (
    AckHeader,
    ChangeInvisibleHeader,
    ChangeInvisibleResponseHeader,
    PopHeader,
    PopResponseHeader,
)

TOPIC, GROUP = "Orders", "readers"
POP_TIME_MS = 1_700_000_000_000
REVIVE_QUEUE = 3
OPTIONS = PopOptions(max_count=32, invisible_ms=15_000, wait_ms=0, from_first=True)


class HeldPop(NamedTuple):
    """A pop that waits for messages."""

    session: Session
    command: Command
    header: PopHeader


class PopBroker:
    """A broker whose messages are popped once each; what is handed back is popped again.

    Attributes:
        now_ms: its time, ms since the epoch.
        order_counts: how often messages were popped before, as the answers to pops say it.
        pops, acks, changes: the requests that came.
        assignment: the answer to members that ask what they pop; None if the request is not known.
        refusals: codes that the next requests with a code are answered by.
        unanswered: the codes of requests that are not answered.
        committed: what the group has committed, by queue; all its queues are empty.
        queries: how often members asked for it.
        is_holding: set when a pop is held.
    """

    def __init__(self, name: str = "a") -> None:
        self.name = name
        self.now_ms = POP_TIME_MS
        self.order_counts: str | None = None
        self.pops: list[PopHeader] = []
        self.acks: list[AckHeader] = []
        self.batches: list[BatchAckRequest] = []
        self.changes: list[ChangeInvisibleHeader] = []
        self.heartbeats: list[Heartbeat] = []
        self.unregistered = 0
        self.sent_back: list[SendBackHeader] = []
        self.queries = 0
        self.assignment: AssignmentResponse | None = None
        self.refusals: defaultdict[int, list[int]] = defaultdict(list)
        self.unanswered: set[int] = set()
        self.committed: dict[tuple[str, int], int] = {}
        self.waiting: defaultdict[str, list[Record]] = defaultdict(list)
        self.held: list[HeldPop] = []
        self.is_holding = asyncio.Event()
        self._count = 0

    def put(self, *bodies: bytes, topic: str = TOPIC, **options: Any) -> None:
        """Store messages, and hand them out to a held pop."""
        for body in bodies:
            self.waiting[topic].append(record(self._count, body, topic, **options))
            self._count += 1
        held, self.held = self.held, []
        for pop in held:
            self._pop(*pop)

    def handle(self, session: Session, commands: list[Command]) -> None:
        """Answer requests."""
        for command in commands:
            if command.code in self.unanswered:
                continue
            if self.refusals[command.code]:
                code = self.refusals[command.code].pop(0)
                zeros = fields(PopResponseHeader(0, 0, 0, 0)) | fields(ChangeInvisibleResponseHeader(0, 0, 0))
                session.send(response(command, code, "as told", zeros))
                continue
            match command.code:
                case RequestCode.POP_MESSAGE:
                    header = parse(PopHeader, command.ext_fields)
                    self.pops.append(header)
                    self._pop(session, command, header)
                    continue
                case RequestCode.ACK_MESSAGE:
                    self.acks.append(parse(AckHeader, command.ext_fields))
                case RequestCode.BATCH_ACK_MESSAGE:
                    self.batches.append(decode(BatchAckRequest, command.body))
                case RequestCode.CHANGE_MESSAGE_INVISIBLETIME:
                    session.send(self._change(command))
                    continue
                case RequestCode.HEART_BEAT:
                    self.heartbeats.append(decode(Heartbeat, command.body))
                case RequestCode.CONSUMER_SEND_MSG_BACK:
                    self.sent_back.append(parse(SendBackHeader, command.ext_fields))
                case RequestCode.QUERY_ASSIGNMENT if self.assignment is not None:
                    self.queries += 1
                    session.send(response(command, body=encode_body(self.assignment)))
                    continue
                case RequestCode.UNREGISTER_CLIENT:
                    self.unregistered += 1
                case RequestCode.GET_MAX_OFFSET | RequestCode.SEARCH_OFFSET_BY_TIMESTAMP:
                    session.send(response(command, ext_fields=fields(OffsetResponseHeader(0))))
                    continue
                case RequestCode.QUERY_CONSUMER_OFFSET:
                    session.send(self._committed(command))
                    continue
                case RequestCode.UPDATE_CONSUMER_OFFSET:
                    new = parse(UpdateConsumerOffsetHeader, command.ext_fields)
                    self.committed[new.topic, new.queue_id] = new.commit_offset
                case _:
                    session.send(response(command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "as told"))
                    continue
            session.send(response(command))

    def closed(self, session: Session) -> None:
        """Drop the held pops of a session."""
        self.held = [pop for pop in self.held if pop.session is not session]

    def topics(self) -> set[str]:
        """Return the topics of the last heartbeat."""
        (consumer,) = self.heartbeats[-1].consumers
        return {one.topic for one in consumer.subscriptions}

    def acknowledged(self) -> set[int]:
        """Return the offsets of all acknowledgements, single ones and batches."""
        batched = (
            entry.start_offset + distance
            for batch in self.batches
            for entry in batch.acks
            for distance in bit_set.decode(entry.bit_set)
        )
        return {header.offset for header in self.acks} | set(batched)

    def _pop(self, session: Session, command: Command, header: PopHeader) -> None:
        waiting = self.waiting[header.topic]
        if not waiting and header.poll_time:
            self.held.append(HeldPop(session, command, header))
            self.is_holding.set()
            return
        found = [waiting.pop(0) for _ in range(min(header.max_msg_nums, len(waiting)))]
        session.send(answer_to_pop(command, found, self.now_ms, header.invisible_time, self.order_counts))

    def _committed(self, command: Command) -> Command:
        header = parse(QueryConsumerOffsetHeader, command.ext_fields)
        offset = self.committed.get((header.topic, header.queue_id))
        if offset is None:
            return response(command, ResponseCode.QUERY_NOT_FOUND, "as told")
        return response(command, ext_fields=fields(OffsetResponseHeader(offset)))

    def _change(self, command: Command) -> Command:
        header = parse(ChangeInvisibleHeader, command.ext_fields)
        self.changes.append(header)
        changed = ChangeInvisibleResponseHeader(self.now_ms, header.invisible_time, REVIVE_QUEUE)
        return response(command, ext_fields=fields(changed))


def record(
    offset: int,
    body: bytes,
    topic: str = TOPIC,
    *,
    tags: str | None = None,
    sys_flag: int = 0,
    reconsume_times: int = 0,
    **named: str,
) -> Record:
    """Build a record of queue 2."""
    named = {"UNIQ_KEY": f"ID{offset}"} | named | ({} if tags is None else {"TAGS": tags})
    text = properties.encode(named)
    host = bytes(8)
    return Record(topic, body, text, 2, offset, 100 * offset, 0, sys_flag, 1, host, 2, host, reconsume_times)


def answer_to_pop(
    command: Command,
    found: list[Record],
    pop_time_ms: int,
    invisible_ms: int,
    order_counts: str | None = None,
) -> Command:
    """Build the answer to a pop that read all records from one queue of each topic."""
    if not found:
        nothing = fields(PopResponseHeader(0, 0, 0, 0))
        return response(command, ResponseCode.POLLING_TIMEOUT, "NO_MESSAGE_IN_QUEUE", nothing)
    by_flag: dict[RetryFlag, list[int]] = {}
    for one in found:
        by_flag.setdefault(flag_of(one.topic), []).append(one.queue_offset)
    queues = [PoppedQueue(flag, 2, offsets[0] - 1, tuple(offsets)) for flag, offsets in by_flag.items()]
    lists = encode_begin_offsets(queues), encode_offsets(queues), order_counts
    header = PopResponseHeader(pop_time_ms, invisible_ms, REVIVE_QUEUE, 0, *lists)
    return response(command, ResponseCode.SUCCESS, "FOUND", fields(header), b"".join(map(encode, found)))


class Client(NamedTuple):
    """Requests of a group to brokers, and where the brokers are found."""

    requests: PopRequests
    offsets: QueueRequests
    routes: Routes
    name_server: str


@asynccontextmanager
async def popping(*brokers: PopBroker) -> AsyncIterator[Client]:
    """Serve brokers behind a name server that knows any topic on all of them."""
    servers = [Server(broker) for broker in brokers]
    addresses = {}
    for broker, server in zip(brokers, servers, strict=True):
        addresses[broker.name] = f"{inproc.HOST}:{await server.start(inproc.HOST, 0)}"
    names = Server(RoutesOnly(addresses))
    name_server = f"{inproc.HOST}:{await names.start(inproc.HOST, 0)}"
    connections = Connections()
    routes = Routes(connections, [name_server])
    try:
        async with asyncio.timeout(60):
            requests = PopRequests(connections, routes, GROUP, 3_000)
            offsets = QueueRequests(connections, routes, GROUP, 100_000)
            yield Client(requests, offsets, routes, name_server)
    finally:
        await connections.close()
        for server in (names, *servers):
            await server.stop()


@asynccontextmanager
async def consuming(broker: PopBroker, handler: Any, **arguments: Any) -> AsyncIterator[Consumer]:
    """Handle the messages of a broker by a consumer."""
    batch_size = arguments.pop("batch_size", None)
    clock = ManualClock(POP_TIME_MS)
    async with popping(broker) as here:
        options: dict[str, Any] = {"pop": True, "start": Start.FIRST, "clock": clock}
        consumer = Consumer(here.name_server, GROUP, **options | arguments)
        consumer.subscribe(TOPIC, handler, batch_size=batch_size)
        async with consumer:
            yield consumer
