"""Calls that read queues by offsets, none of which RocketMQ's proxy serves."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from google.protobuf.duration_pb2 import Duration
from tests.grpc_codes.case import (
    EMPTY,
    NORMAL,
    READ_ONLY,
    Case,
    World,
    resource,
    with_illegal_groups,
    with_illegal_topics,
)

from cometmq.proxy import messaging_pb2 as pb


def cases() -> Iterator[Case]:
    """Iterate over the calls."""

    def case(note: str, outcome: str, rpc: str, topic: str = NORMAL, queue_id: int = 0, **more: Any) -> Case:
        kind = getattr(pb, f"{rpc}Request")

        def request(world: World) -> Any:
            group = {} if rpc == "QueryOffset" else {"group": resource(world.group)}
            return kind(message_queue=_queue(world, topic, queue_id), **group, **more)

        return Case(rpc, note, outcome, request)

    soon = Duration(nanos=1_000_000)
    yield case("a queue", "OK", "PullMessage")
    yield case("an empty queue", "MESSAGE_NOT_FOUND", "PullMessage", EMPTY, long_polling_timeout=soon)
    yield case("an offset that does not exist", "ILLEGAL_OFFSET", "PullMessage", offset=1 << 40)
    yield case("a queue that does not exist", "BAD_REQUEST", "PullMessage", queue_id=99)
    yield case("an offset", "OK", "UpdateOffset", EMPTY)
    yield case("a negative offset", "ILLEGAL_OFFSET", "UpdateOffset", offset=-1)
    yield case("a queue of which none is committed", "OFFSET_NOT_FOUND", "GetOffset", READ_ONLY)
    yield case("a queue that does not exist", "BAD_REQUEST", "GetOffset", queue_id=99)
    for policy in (pb.BEGINNING, pb.END, pb.TIMESTAMP):
        note = pb.QueryOffsetPolicy.Name(policy).lower()
        yield case(note, "OK", "QueryOffset", query_offset_policy=policy)
    for rpc in ("PullMessage", "UpdateOffset", "GetOffset"):
        yield from with_illegal_topics(rpc, partial(_of_queue, rpc))
        yield from with_illegal_groups(rpc, partial(_of_group, rpc))
    yield from with_illegal_topics(
        "QueryOffset", lambda world, topic: pb.QueryOffsetRequest(message_queue=_queue(world, topic))
    )


def _queue(world: World, topic: str, queue_id: int = 0) -> pb.MessageQueue:
    return pb.MessageQueue(topic=resource(topic), id=queue_id, broker=pb.Broker(name=world.broker_name))


def _of_queue(rpc: str, world: World, topic: str) -> Any:
    return getattr(pb, f"{rpc}Request")(message_queue=_queue(world, topic), group=resource(world.group))


def _of_group(rpc: str, world: World, group: str) -> Any:
    return getattr(pb, f"{rpc}Request")(message_queue=_queue(world, NORMAL), group=resource(group))
