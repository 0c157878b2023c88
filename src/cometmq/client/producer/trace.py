"""Message trace: records of sends and of handled messages in RMQ_SYS_TRACE_TOPIC, in RocketMQ's format.

``producer/send_trace.py`` and ``handling/consume_trace.py`` make the records.

Source: RocketMQ ``client/trace/AsyncTraceDispatcher.java``.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple

from cometmq.client.identity import new_id_maker
from cometmq.client.producer import outgoing
from cometmq.client.producer.sending import Sender, SendSettings
from cometmq.client.routes import Routes
from cometmq.errors import CometMQError
from cometmq.format.properties import KEY_SEPARATOR
from cometmq.io.clock import Clock
from cometmq.logs import get_logger
from cometmq.message import Message
from cometmq.net.client import Connections
from cometmq.wire.bodies.trace import GROUP_PREFIX, TRACE_TOPIC, Trace, encode

FLUSH_COUNT: Final = 20
FLUSH_S: Final = 5.0
KEYS_BYTES_MAX: Final = 30_000
"""Most bytes of a trace message's keys: its properties may have 32,767, and the broker adds some."""
BODY_BYTES_MAX: Final = 118_000
"""Most bytes of a trace message's body, as in RocketMQ's clients, unless a single record is longer."""
SENDING_MAX: Final = 1_000
"""Most trace messages in flight; further traces are dropped."""
REGION: Final = "DefaultRegion"
"""The region of records if neither the broker nor the message names one."""

Send = Callable[[Message], Awaitable[object]]

_log = get_logger(__name__)


class TopicTrace(NamedTuple):
    """A trace and the topic of the traced message."""

    topic: str
    trace: Trace


class Tracer:
    """Buffers traces and sends them in batches.

    Args:
        send: sends one message, without tracing it.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._waiting: list[TopicTrace] = []
        self._timer: asyncio.TimerHandle | None = None
        self._sending: set[asyncio.Task[None]] = set()

    def record(self, topic: str, trace: Trace) -> None:
        """Add a trace of a message of a topic to the buffer."""
        self._waiting.append(TopicTrace(topic, trace))
        if len(self._waiting) >= FLUSH_COUNT:
            self._flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_S, self._flush)

    async def close(self) -> None:
        """Send the buffered traces and wait for their responses."""
        self._flush()
        await asyncio.gather(*self._sending)

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, []
        for message in trace_messages(waiting):
            if len(self._sending) >= SENDING_MAX:
                _log.warning("traces are dropped: %d trace messages are in flight", SENDING_MAX)
                return
            task = asyncio.create_task(self._send_message(message))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    async def _send_message(self, message: Message) -> None:
        try:
            await self._send(message)
        except CometMQError as error:
            _log.warning("traces are lost: %s", error)


def trace_sender(connections: Connections, routes: Routes, client: str, clock: Clock) -> Send:
    """Return a function that sends traces over a client's connections; ``client`` names its group."""
    sender = Sender(connections, routes, SendSettings(f"{GROUP_PREFIX}-{client}"), clock)
    ids = new_id_maker()
    return lambda message: sender.send(outgoing.single(message, ids.make(clock.now_ms())))


def trace_messages(traces_of_topics: Sequence[TopicTrace]) -> list[Message]:
    """Return trace messages; each has traces of one topic, and as keys the traced messages' ids and keys."""
    by_topic = attrgetter("topic")
    return [
        message
        for _, group in groupby(sorted(traces_of_topics, key=by_topic), key=by_topic)
        for message in _full_messages(one.trace for one in group)
    ]


def _full_messages(traces: Iterable[Trace]) -> Iterator[Message]:
    """Divide traces among messages; a new one begins where the body or the keys would become too large."""
    body, keys = b"", set[str]()
    for trace in traces:
        record, own = encode([trace]), {*trace.message_id.split(","), *trace.keys.split()}
        if body and (len(body) + len(record) > BODY_BYTES_MAX or _size(keys | own) > KEYS_BYTES_MAX):
            yield _message(body, keys)
            body, keys = b"", set()
        body += record
        keys |= own
    yield _message(body, keys)


def _message(body: bytes, keys: set[str]) -> Message:
    return Message(TRACE_TOPIC, body, keys=tuple(sorted(keys)))


def _size(keys: set[str]) -> int:
    return len(KEY_SEPARATOR.join(keys).encode())
