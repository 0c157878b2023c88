"""Calls of producers: what is sent, recalled, committed and rolled back."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from tests.grpc_codes.case import (
    DELAY,
    FIFO,
    NORMAL,
    READ_ONLY,
    TRANSACTION,
    UNKNOWN,
    Case,
    World,
    resource,
    with_illegal_topics,
)
from tests.proxy.conftest import message_of

from cometmq.proxy import messaging_pb2 as pb

BODY_BYTES_MAX: Final = 4 << 20
PROPERTIES_MAX: Final = 128
PROPERTIES_BYTES_MAX: Final = 16 << 10
DAY_S: Final = 24 * 3600
CONTROL: Final = "\x07"
BLANK: Final = "  "


def sent(*messages: pb.Message) -> pb.SendMessageRequest:
    """Return a send of messages."""
    return pb.SendMessageRequest(messages=messages)


def half_message(**system: Any) -> pb.Message:
    """Return the message of a transaction."""
    return message_of(TRANSACTION, message_type=pb.TRANSACTION, **system)


def delayed_message(due_s: int) -> pb.Message:
    """Return a message that is due at a time, in seconds since the epoch."""
    return message_of(DELAY, message_id="delayed", delivery_timestamp=Timestamp(seconds=due_s))


def cases() -> Iterator[Case]:
    """Iterate over the calls."""
    yield from _sends()
    yield from _recalls()
    yield from _ends()


def _sends() -> Iterator[Case]:
    def send(note: str, outcome: str, *messages: pb.Message) -> Case:
        return Case("SendMessage", note, outcome, sent(*messages))

    def with_property(name: str, value: str = "v") -> pb.Message:
        message = message_of(NORMAL)
        message.user_properties[name] = value
        return message

    many, large = message_of(NORMAL), with_property("k", "v" * (PROPERTIES_BYTES_MAX - 1))
    for number in range(PROPERTIES_MAX + 1):
        many.user_properties[f"k{number}"] = "v"
    yield send("a message", "OK", message_of(NORMAL))
    yield send("one of a message group", "OK", message_of(FIFO, message_group="g"))
    yield send("one of a transaction", "OK", half_message())
    yield Case("SendMessage", "a delayed one", "OK", lambda world: sent(delayed_message(world.now_s + 600)))
    yield Case("SendMessage", "one due in the past", "OK", sent(delayed_message(1)))
    yield send("no message", "MESSAGE_CORRUPTED")
    yield send("messages of two topics", "MESSAGE_CORRUPTED", message_of(NORMAL), message_of(FIFO))
    yield from with_illegal_topics("SendMessage", lambda _, topic: sent(message_of(topic)))
    yield send("an unknown topic", "TOPIC_NOT_FOUND", message_of(UNKNOWN))
    yield send("a topic that cannot be written", "FORBIDDEN", message_of(READ_ONLY))
    yield send("no body", "MESSAGE_BODY_EMPTY", message_of(NORMAL, b""))
    yield send("a body of 4 MiB", "OK", message_of(NORMAL, bytes(BODY_BYTES_MAX)))
    too_long = message_of(NORMAL, bytes(BODY_BYTES_MAX + 1))
    yield send("a body of 4 MiB and a byte", "MESSAGE_BODY_TOO_LARGE", too_long)
    yield send("129 user properties", "MESSAGE_PROPERTIES_TOO_LARGE", many)
    yield send("properties of 16 KiB", "OK", large)
    larger = with_property("k", "v" * PROPERTIES_BYTES_MAX)
    yield send("properties of 16 KiB and a byte", "MESSAGE_PROPERTIES_TOO_LARGE", larger)
    yield send("a reserved property", "ILLEGAL_MESSAGE_PROPERTY_KEY", with_property("UNIQ_KEY"))
    for what, one in (("name", with_property(CONTROL)), ("value", with_property("k", CONTROL))):
        note = f"a control character in a property's {what}"
        yield send(note, "ILLEGAL_MESSAGE_PROPERTY_KEY", one)
    yield from _sends_with_system_properties(send)


def _sends_with_system_properties(send: Callable[..., Case]) -> Iterator[Case]:
    wrong: dict[str, list[tuple[str, dict[str, Any]]]] = {
        "ILLEGAL_MESSAGE_TAG": [
            ("a blank tag", {"tag": BLANK}),
            ("a tag with |", {"tag": "a|b"}),
            ("a control character in the tag", {"tag": CONTROL}),
        ],
        "ILLEGAL_MESSAGE_KEY": [
            ("a blank key", {"keys": [BLANK]}),
            ("a control character in a key", {"keys": [CONTROL]}),
        ],
        "ILLEGAL_MESSAGE_ID": [("a blank message id", {"message_id": BLANK})],
        "ILLEGAL_MESSAGE_GROUP": [
            ("a blank message group", {"message_group": BLANK}),
            ("a message group of 64 bytes", {"message_group": "g" * 64}),
            ("a control character in the message group", {"message_group": CONTROL}),
        ],
        "INTERNAL_SERVER_ERROR": [("a negative priority", {"priority": -1})],
        "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE": [
            ("a message group, to a topic of normal messages", {"message_group": "g"}),
            ("a priority, to a topic of normal messages", {"priority": 1}),
            ("a lite topic, to a topic of normal messages", {"lite_topic": "l"}),
        ],
        "ILLEGAL_LITE_TOPIC": [
            ("a blank lite topic", {"lite_topic": BLANK}),
            ("a lite topic of 65 characters", {"lite_topic": "l" * 65}),
            ("a lite topic with a dot", {"lite_topic": "a.b"}),
        ],
    }
    for outcome, pairs in wrong.items():
        for note, system in pairs:
            yield send(note, outcome, message_of(NORMAL, **system))
    ungrouped = message_of(FIFO, message_type=pb.FIFO)
    yield send("no message group, to a FIFO topic", "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE", ungrouped)
    late = half_message(orphaned_transaction_recovery_duration=Duration(seconds=3601))
    yield send("a recovery of the transaction after more than an hour", "BAD_REQUEST", late)
    aimless = message_of(NORMAL, orphaned_transaction_recovery_duration=Duration(seconds=3601))
    yield send("the same of a message without transaction", "OK", aimless)
    yield Case(
        "SendMessage",
        "a delay of more than 24 hours",
        "ILLEGAL_DELIVERY_TIME",
        lambda world: sent(delayed_message(world.now_s + DAY_S + 600)),
    )


def _recalls() -> Iterator[Case]:
    def recall(topic: str, handle: str) -> pb.RecallMessageRequest:
        return pb.RecallMessageRequest(topic=resource(topic), recall_handle=handle)

    yield Case("RecallMessage", "a delayed message", "OK", lambda world: recall(DELAY, world.recall))
    yield Case("RecallMessage", "no handle", "INTERNAL_SERVER_ERROR", recall(DELAY, "x"))
    yield Case(
        "RecallMessage",
        "a topic of normal messages",
        "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE",
        lambda world: recall(NORMAL, world.recall),
    )
    yield Case("RecallMessage", "an unknown topic", "TOPIC_NOT_FOUND", recall(UNKNOWN, "x"))
    yield from with_illegal_topics("RecallMessage", lambda world, topic: recall(topic, world.recall))


def _ends() -> Iterator[Case]:
    def end(note: str, outcome: str, transaction_id: str | None = None, **more: Any) -> Case:
        def made(world: World) -> pb.EndTransactionRequest:
            fields: dict[str, Any] = {"message_id": "ID", "resolution": pb.COMMIT} | more
            identity = next(world.halves) if transaction_id is None else transaction_id
            return pb.EndTransactionRequest(topic=resource(TRANSACTION), transaction_id=identity, **fields)

        return Case("EndTransaction", note, outcome, made)

    yield end("commit", "OK")
    yield end("roll back", "OK", resolution=pb.ROLLBACK)
    yield end("neither", "OK", resolution=pb.TRANSACTION_RESOLUTION_UNSPECIFIED)
    yield end("a blank transaction id", "INVALID_TRANSACTION_ID", BLANK)
    yield end("an unknown transaction id", "INVALID_TRANSACTION_ID", "x")
    yield from with_illegal_topics(
        "EndTransaction",
        lambda _, topic: pb.EndTransactionRequest(topic=resource(topic), transaction_id="x", message_id="ID"),
    )
