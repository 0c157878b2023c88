r"""Message traces: the texts that clients send to RMQ_SYS_TRACE_TOPIC, for ``mqadmin queryMsgTraceById``.

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
"""Java's text for the keys of a message without keys: its reader fails if the last field is empty."""


class MessageKind(IntEnum):
    """The kind of a traced message."""

    NORMAL = 0
    HALF = 1
    COMMITTED = 2
    DELAYED = 3
    ORDERED = 4


class PubTrace(NamedTuple):
    """The trace of a send.

    Attributes:
        born_time: when the send began, ms since the epoch.
        message_id: the unique id; for a batch, those of its messages joined by commas.
        keys: joined by blanks.
        broker: the address of the broker, ``host:port``.
        cost_ms: duration of the send.
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
    """The result of handling a message, for a trace."""

    SUCCESS = 0
    TIMEOUT = 1
    EXCEPTION = 2
    NOTHING = 3
    FAILED = 4


class BeforeTrace(NamedTuple):
    """The trace of a message that is about to be handled.

    Attributes:
        time: when handling began, ms since the epoch.
        request_id: id of this attempt, the same in its ``AfterTrace``.
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
    """The trace of a message that has been handled.

    Attributes:
        cost_ms: duration of the handler, divided by the number of messages in its call.
        time: when handling ended, ms since the epoch.
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
DIGITS_MAX: Final = 20
"""Most characters of a number, which has 64 bits."""


def _number(text: str) -> int:
    """Read a number. Raises ValueError."""
    if len(text) > DIGITS_MAX:
        raise ValueError(f"a number of {len(text)} characters")
    return int(text)


_READ: Final[dict[object, Callable[[str], object]]] = {
    int: _number,
    str: str,
    bool: "true".__eq__,
    MessageKind: lambda text: MessageKind(_number(text)),
    Outcome: lambda text: Outcome(_number(text)),
}


def encode(traces: Iterable[Trace]) -> bytes:
    """Encode traces as the body of a message."""
    return "".join(_written(trace) + RECORD_END for trace in traces).encode()


def decode(body: bytes) -> list[Trace]:
    """Decode the traces of a body; records of other kinds are ignored. Raises FormatError."""
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
    """Decode the fields of a record; further fields, which newer clients may write, are ignored."""
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
