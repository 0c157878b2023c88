"""Calls of consumers: what is received, acknowledged, hidden for longer and given up."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from google.protobuf.duration_pb2 import Duration
from tests.grpc_codes.case import (
    EMPTY,
    NORMAL,
    UNKNOWN,
    WRITE_ONLY,
    Case,
    World,
    names_of,
    with_illegal_groups,
    with_illegal_topics,
)
from tests.proxy.conftest import receive_request

from cometmq.proxy import messaging_pb2 as pb

EXPIRED: Final = "0 1000 1000 0 0 broker-a 0 0 0"
PLACELESS: Final = "0 99999999999999 1000 0 0 broker-a 0 0"
OF_NO_BROKER: Final = "0 99999999999999 1000 0 0 CodesNoBroker 0 0 0"
MALFORMED: Final = "no handle"
TWELVE_HOURS_S: Final = 12 * 3600
SHORT_S: Final = 3.0

HandleRequest = Callable[[World, Mapping[str, Any], str], Any]
"""Makes a request of what is at the proxy, the fields that name the group and the topic, and a handle."""


def cases() -> Iterator[Case]:
    """Iterate over the calls."""
    yield from _receives()
    yield from _with_handles("AckMessage", _ack)
    yield from _acks()
    yield from _with_handles("ChangeInvisibleDuration", _change)
    for note, seconds in (("to more than 12 hours", TWELVE_HOURS_S + 1), ("to less than nothing", -1)):
        yield Case("ChangeInvisibleDuration", note, "ILLEGAL_INVISIBLE_TIME", _changed_to(seconds))
    yield from _with_handles("ForwardMessageToDeadLetterQueue", _bury)
    yield Case(
        "ForwardMessageToDeadLetterQueue",
        "a handle that does not say where the message is",
        "INVALID_RECEIPT_HANDLE",
        lambda world: _bury(world, names_of(group=world.group), PLACELESS),
    )


def _receives() -> Iterator[Case]:
    def receive(note: str, outcome: str, topic: str = NORMAL, **more: Any) -> Case:
        options = {name: more.pop(name) for name in ("timeout_s", "waits") if name in more}
        return Case(
            "ReceiveMessage",
            note,
            outcome,
            lambda world: receive_request(topic, world.group, **more),
            **options,
        )

    def filtered(kind: pb.FilterType, expression: str) -> pb.FilterExpression:
        return pb.FilterExpression(type=kind, expression=expression)

    yield receive("of a topic with messages", "OK")
    yield receive("of an empty topic", "MESSAGE_NOT_FOUND", EMPTY, waits=True)
    yield receive("of an unknown topic", "TOPIC_NOT_FOUND", UNKNOWN)
    yield receive("of a topic that cannot be read", "FORBIDDEN", WRITE_ONLY)
    yield from with_illegal_topics("ReceiveMessage", lambda world, topic: receive_request(topic, world.group))
    yield from with_illegal_groups("ReceiveMessage", lambda _, group: receive_request(NORMAL, group))
    for note, seconds in (("for less than 10 s", 9), ("for more than 12 hours", TWELVE_HOURS_S + 1)):
        yield receive(note, "ILLEGAL_INVISIBLE_TIME", invisible_duration=Duration(seconds=seconds))
    illegal = "ILLEGAL_FILTER_EXPRESSION"
    yield receive("by tags that cannot be parsed", illegal, filter_expression=filtered(pb.TAG, "||"))
    yield receive("by SQL that cannot be parsed", illegal, filter_expression=filtered(pb.SQL, "a = "))
    yield receive("with a deadline in 3 s", "ILLEGAL_POLLING_TIME", timeout_s=SHORT_S)


def _with_handles(rpc: str, request: HandleRequest) -> Iterator[Case]:
    """Iterate over the calls with a handle that each of these rpcs has."""

    def case(note: str, outcome: str, handle: str | None = None, topic: str = NORMAL) -> Case:
        return Case(
            rpc,
            note,
            outcome,
            lambda world: request(
                world, names_of(topic, world.group), next(world.receipts) if handle is None else handle
            ),
        )

    yield case("a message that was received", "OK")
    if rpc != "ForwardMessageToDeadLetterQueue":
        yield case("a handle that has expired", "INVALID_RECEIPT_HANDLE", EXPIRED)
    yield case("no handle", "INVALID_RECEIPT_HANDLE", MALFORMED)
    yield case("a handle of an unknown broker", "TOPIC_NOT_FOUND", OF_NO_BROKER)
    yield from with_illegal_topics(
        rpc, lambda world, topic: request(world, names_of(topic, world.group), EXPIRED)
    )
    yield from with_illegal_groups(rpc, lambda world, group: request(world, names_of(NORMAL, group), EXPIRED))


def _acks() -> Iterator[Case]:
    def ack(*handles: str) -> Callable[[World], pb.AckMessageRequest]:
        return lambda world: pb.AckMessageRequest(
            entries=[pb.AckMessageEntry(message_id="ID", receipt_handle=one) for one in handles],
            **names_of(group=world.group),
        )

    yield Case("AckMessage", "no message", "INTERNAL_SERVER_ERROR", ack())
    yield Case(
        "AckMessage",
        "a received message, and a handle that has expired",
        "MULTIPLE_RESULTS",
        lambda world: ack(next(world.receipts), EXPIRED)(world),
    )


def _ack(_: World, names: Mapping[str, Any], handle: str) -> pb.AckMessageRequest:
    entry = pb.AckMessageEntry(message_id="ID", receipt_handle=handle)
    return pb.AckMessageRequest(entries=[entry], **names)


def _change(_: World, names: Mapping[str, Any], handle: str) -> pb.ChangeInvisibleDurationRequest:
    return pb.ChangeInvisibleDurationRequest(
        receipt_handle=handle, message_id="ID", invisible_duration=Duration(seconds=60), **names
    )


def _changed_to(seconds: int) -> Callable[[World], pb.ChangeInvisibleDurationRequest]:
    def made(world: World) -> pb.ChangeInvisibleDurationRequest:
        request = _change(world, names_of(group=world.group), EXPIRED)
        request.invisible_duration.CopyFrom(Duration(seconds=seconds))
        return request

    return made


def _bury(_: World, names: Mapping[str, Any], handle: str) -> pb.ForwardMessageToDeadLetterQueueRequest:
    return pb.ForwardMessageToDeadLetterQueueRequest(receipt_handle=handle, message_id="ID", **names)
