r"""Message trace: the texts that clients write to RMQ_SYS_TRACE_TOPIC, for ``mqadmin queryMsgTraceById``.

A body holds records, each ended by ``\x02``; a record's fields are separated by ``\x01``:

    Pub, born time, region, group, topic, message id, tags, keys, broker, body size, cost, kind, offset id,
    success

RocketMQ: ``TraceDataEncoder.java``, ``TraceConstants.java``, ``MessageType.java``.
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import Final, NamedTuple

from cometmq.errors import FormatError

TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"
GROUP_PREFIX: Final = "_INNER_TRACE_PRODUCER"
FIELD_END: Final = "\x01"
RECORD_END: Final = "\x02"
PUB: Final = "Pub"


class MessageKind(IntEnum):
    """What a traced message is."""

    NORMAL = 0
    HALF = 1
    COMMITTED = 2
    DELAYED = 3
    ORDERED = 4


class PubTrace(NamedTuple):
    """A send.

    Attributes:
        born_time: when it began, ms since the epoch.
        message_id: the unique id; of a batch, those of its messages joined by commas.
        keys: joined by blanks.
        broker: the address that it was sent to, ``host:port``.
        cost_ms: how long it took.
    """

    born_time: int
    region: str
    group: str
    topic: str
    message_id: str
    tags: str
    keys: str
    broker: str
    body_size: int
    cost_ms: int
    kind: MessageKind
    offset_id: str
    success: bool


def encode(traces: Iterable[PubTrace]) -> bytes:
    """Write records."""
    return "".join(FIELD_END.join([PUB, *map(_text, trace)]) + RECORD_END for trace in traces).encode()


def decode(body: bytes) -> list[PubTrace]:
    """Read the sends of a body; records of other kinds are passed over. Raises FormatError."""
    records = (record.split(FIELD_END) for record in body.decode("utf-8", "replace").split(RECORD_END))
    try:
        return [_pub(fields[1:]) for fields in records if fields[0] == PUB]
    except ValueError as error:
        raise FormatError(f"trace of {len(body)} bytes: {error}") from None


def _pub(fields: list[str]) -> PubTrace:
    born_time, *texts, body_size, cost_ms, kind, offset_id, success = fields[: len(PubTrace._fields)]
    region, group, topic, message_id, tags, keys, broker = texts
    return PubTrace(
        int(born_time),
        *(region, group, topic, message_id, tags, keys, broker),
        int(body_size),
        int(cost_ms),
        MessageKind(int(kind)),
        offset_id,
        success == "true",
    )


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(int(value)) if isinstance(value, int) else str(value)
