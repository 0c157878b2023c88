r"""Message trace: the texts that clients write to RMQ_SYS_TRACE_TOPIC, for ``mqadmin queryMsgTraceById``.

A body holds records, each ended by ``\x02``; a record's fields are separated by ``\x01``:

    Pub, born time, region, group, topic, message id, tags, keys, broker, body size, cost, kind, offset id,
    success
    SubBefore, time, region, group, request id, message id, retry times, keys
    SubAfter, request id, message id, cost, success, keys, outcome, time, group

RocketMQ: ``TraceDataEncoder.java``, ``TraceConstants.java``, ``MessageType.java`` and, for the outcome,
``ConsumeReturnType.java``.
"""

from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import Any, Final, NamedTuple

from cometmq.errors import FormatError

TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"
GROUP_PREFIX: Final = "_INNER_TRACE_PRODUCER"
FIELD_END: Final = "\x01"
RECORD_END: Final = "\x02"
NO_KEYS: Final = "null"
"""Java's word for the keys of a message that has none. Its reader fails where the last field is empty."""


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


class Outcome(IntEnum):
    """What became of a message that a handler got."""

    SUCCESS = 0
    TIMEOUT = 1
    EXCEPTION = 2
    NOTHING = 3
    FAILED = 4


class BeforeTrace(NamedTuple):
    """A message that a handler is about to get.

    Attributes:
        time: when, ms since the epoch.
        request_id: of this try; ``AfterTrace`` has it, too.
        message_id: the unique id.
        keys: joined by blanks.
    """

    time: int
    region: str
    group: str
    request_id: str
    message_id: str
    retry_times: int
    keys: str


class AfterTrace(NamedTuple):
    """A message that a handler has had.

    Attributes:
        cost_ms: how long the handler took, divided by the number of messages that it got at once.
        time: when it was over, ms since the epoch.
    """

    request_id: str
    message_id: str
    cost_ms: int
    success: bool
    keys: str
    outcome: Outcome
    time: int
    group: str


Trace = PubTrace | BeforeTrace | AfterTrace
_NAMES: Final[dict[type[Trace], str]] = {PubTrace: "Pub", BeforeTrace: "SubBefore", AfterTrace: "SubAfter"}
_KINDS: Final = {name: kind for kind, name in _NAMES.items()}
_READ: Final[dict[object, Callable[[str], object]]] = {
    int: int,
    str: str,
    bool: "true".__eq__,
    MessageKind: lambda text: MessageKind(int(text)),
    Outcome: lambda text: Outcome(int(text)),
}


def encode(traces: Iterable[Trace]) -> bytes:
    """Write records."""
    return "".join(_written(trace) + RECORD_END for trace in traces).encode()


def decode(body: bytes) -> list[Trace]:
    """Read the records of a body; those of other kinds are passed over. Raises FormatError."""
    records = (record.split(FIELD_END) for record in body.decode("utf-8", "replace").split(RECORD_END))
    try:
        return [_read(kind, texts) for name, *texts in records if (kind := _KINDS.get(name)) is not None]
    except (ValueError, TypeError) as error:
        raise FormatError(f"trace of {len(body)} bytes: {error}") from None


def _written(trace: Trace) -> str:
    texts = [_NAMES[type(trace)], *map(_text, trace)]
    if isinstance(trace, BeforeTrace) and not trace.keys:
        texts[-1] = NO_KEYS
    return FIELD_END.join(texts)


def _read(kind: type[Trace], texts: list[str]) -> Trace:
    """Read the fields of a record; newer clients may have written more."""
    if kind is BeforeTrace and texts[-1:] == [NO_KEYS]:
        texts[-1] = ""
    fields: list[Any] = [
        _READ[of](text) for of, text in zip(kind.__annotations__.values(), texts, strict=False)
    ]
    return kind(*fields)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(int(value)) if isinstance(value, int) else str(value)
