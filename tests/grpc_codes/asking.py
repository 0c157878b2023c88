"""Calls a proxy in all ways, and returns what it answers."""

import asyncio
import time
import zlib
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

from grpclib.client import Channel
from grpclib.exceptions import GRPCError, StreamTerminatedError
from tests.grpc_codes import attending, consuming, producing, reading
from tests.grpc_codes.case import (
    DELAY,
    EMPTY,
    FIFO,
    NORMAL,
    READ_ONLY,
    TRANSACTION,
    WRITE_ONLY,
    Caller,
    Case,
    World,
)
from tests.interop.topics import create_topic
from tests.kit.grpc_clients import consumer, producer
from tests.proxy.conftest import GrpcClient, message_of, receive_request

from cometmq.admin import groups
from cometmq.admin.cluster import ClusterAdmin
from cometmq.cluster.route import READ, WRITE
from cometmq.net.address import parse_address
from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.transport import METHODS
from cometmq.wire.bodies.group import GroupConfig

CASES: Final = (*producing.cases(), *consuming.cases(), *attending.cases(), *reading.cases())
RECEIPTS: Final = 8
HALVES: Final = 3
RECALL_IN_S: Final = 3_600
PATIENCE_S: Final = 240.0
CALLS_MAX: Final = 16

Outcomes = dict[str, str]
"""What is answered to each call, by its text: see ``Case.outcome``."""


async def prepare(name_server: str, *ordered: str, plain: Iterable[str]) -> None:
    """Create the topics, and groups: ordered ones, and plain ones."""
    topics = {
        **dict.fromkeys((NORMAL, EMPTY), (READ | WRITE, "NORMAL")),
        FIFO: (READ | WRITE, "FIFO"),
        DELAY: (READ | WRITE, "DELAY"),
        TRANSACTION: (READ | WRITE, "TRANSACTION"),
        READ_ONLY: (READ, "NORMAL"),
        WRITE_ONLY: (WRITE, "NORMAL"),
    }
    for topic, (perm, kind) in topics.items():
        await create_topic(name_server, topic, kind, queues=1, perm=perm)
    async with ClusterAdmin(name_server) as admin:
        for group in ordered:
            await groups.create(admin, GroupConfig(group=group, consume_message_orderly=True))
        for group in plain:
            await groups.create(admin, GroupConfig(group=group))


async def outcomes(
    address: str, broker_name: str, group: str, ordered_group: str, cases: Iterable[Case] = CASES
) -> Outcomes:
    """Call a proxy in all ways side by side, for the groups that exist, and return what it answers."""
    few = asyncio.Semaphore(CALLS_MAX)

    async def outcome(case: Case, request: Any) -> str:
        # A connection for each: calls with large requests would wait for room that others take.
        async with few, Channel(*parse_address(address)) as channel:
            return await _outcome(_of_call(callers[case.caller], case, channel), case, request)

    async with _callers(address, group) as callers, asyncio.timeout(PATIENCE_S):
        world = await _world(callers[Caller.CONSUMER], broker_name, group, ordered_group)
        made = [(case, case.made(world)) for case in cases]
        # First those with a deadline that others could make them miss.
        answers = {str(case): await outcome(case, one) for case, one in made if case.is_urgent}
        others = [(case, one) for case, one in made if not case.is_urgent]
        found = await asyncio.gather(*(outcome(*one) for one in others))
        return answers | {str(case): answer for (case, _), answer in zip(others, found, strict=True)}


@asynccontextmanager
async def _callers(address: str, group: str) -> AsyncIterator[dict[Caller, GrpcClient]]:
    """Connect the callers; those that have settings send them."""
    async with AsyncExitStack() as stack:
        callers = {}
        channel = await stack.enter_async_context(Channel(*parse_address(address)))
        for caller in Caller:
            metadata = {"x-mq-client-version": "5.2.0", "x-mq-language": "JAVA"}
            if caller is not Caller.NOBODY:
                metadata["x-mq-client-id"] = f"{group}-{caller.value}"
            callers[caller] = GrpcClient(channel, metadata)
        settings = {
            Caller.CONSUMER: consumer(group, NORMAL),
            Caller.PRODUCER: producer(NORMAL),
            Caller.LEAVER: producer(NORMAL),
        }
        for caller, its in settings.items():
            await stack.enter_async_context(callers[caller].telemetry(its))
        yield callers


def _of_call(caller: GrpcClient, case: Case, channel: Channel) -> GrpcClient:
    """Return a caller on a connection; RocketMQ answers settings on the last stream of a client's id."""
    metadata = dict(caller.metadata)
    if case.caller is Caller.NEWCOMER:
        metadata["x-mq-client-id"] += f"-{zlib.crc32(str(case).encode())}"
    return GrpcClient(channel, metadata)


async def _world(client: GrpcClient, broker_name: str, group: str, ordered_group: str) -> World:
    """Send and receive what the calls name."""
    now_s = int(time.time())

    async def sent(message: pb.Message) -> pb.SendResultEntry:
        answer = await client.call("SendMessage", producing.sent(message))
        assert answer.status.code == pb.OK, answer
        entry: pb.SendResultEntry = answer.entries[0]
        return entry

    for number in range(RECEIPTS):
        await sent(message_of(NORMAL, message_id=f"ID{number}"))
    receipts: list[str] = []
    while len(receipts) < RECEIPTS:
        _, messages = await client.receive(receive_request(NORMAL, group, batch_size=1))
        receipts += [one.system_properties.receipt_handle for one in messages]
    halves = [(await sent(producing.half_message())).transaction_id for _ in range(HALVES)]
    delayed = await sent(producing.delayed_message(now_s + RECALL_IN_S))
    return World(
        broker_name, group, ordered_group, iter(receipts), iter(halves), delayed.recall_handle, now_s
    )


async def _outcome(client: GrpcClient, case: Case, request: Any) -> str:
    """Call once; return the name of the code in its answer, or of the status that ends it.

    One that misses its deadline on a slow machine is made again.
    """
    while True:
        try:
            return await _answered(client, case, request)
        except (TimeoutError, StreamTerminatedError) as error:
            if not case.is_urgent:
                error.add_note(f"to {case}")
                raise


async def _answered(client: GrpcClient, case: Case, request: Any) -> str:
    is_exchange = METHODS[case.rpc].client_streaming
    try:
        async with client.open(case.rpc, case.timeout_s) as stream:
            await stream.send_message(request, end=not is_exchange)
            answer = await stream.recv_message()
            while answer is not None and not answer.HasField("status"):
                answer = await stream.recv_message()
            if is_exchange:
                await stream.end()
            while await stream.recv_message() is not None:
                pass
    except GRPCError as error:
        return f"gRPC {error.status.name}"
    return "no status" if answer is None else pb.Code.Name(answer.status.code)
