"""Message trace: what became of messages, told to RMQ_SYS_TRACE_TOPIC in RocketMQ's own format.

``send_trace`` says what is told of sends, ``consume_trace`` what of messages that are handled.

Source: RocketMQ ``client/trace/AsyncTraceDispatcher.java``.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple

from cometmq.client.identity import unique_ids
from cometmq.client.producer import outgoing
from cometmq.client.producer.sending import Sender, SendSettings
from cometmq.client.routes import Routes
from cometmq.errors import CometMQError
from cometmq.io.clock import Clock
from cometmq.message import Message
from cometmq.net.client import Connections
from cometmq.wire.bodies.trace import GROUP_PREFIX, TRACE_TOPIC, Trace, encode

FLUSH_COUNT: Final = 20
FLUSH_S: Final = 5.0
SENDING_MAX: Final = 100
"""How many trace messages may be unanswered; beyond, traces are dropped."""
REGION: Final = "DefaultRegion"

Send = Callable[[Message], Awaitable[object]]

_log = logging.getLogger(__name__)


class Noted(NamedTuple):
    """A trace, and the topic of what it tells of."""

    topic: str
    trace: Trace


class Tracer:
    """Gathers traces, and sends them.

    Args:
        send: sends one message, which will not be traced.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._waiting: list[Noted] = []
        self._timer: asyncio.TimerHandle | None = None
        self._sending: set[asyncio.Task[None]] = set()

    def note(self, topic: str, trace: Trace) -> None:
        """Take a trace of a message of a topic."""
        self._waiting.append(Noted(topic, trace))
        if len(self._waiting) >= FLUSH_COUNT:
            self._flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_S, self._flush)

    async def close(self) -> None:
        """Send what is waiting."""
        self._flush()
        await asyncio.gather(*self._sending)

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, []
        for message in messages_of(waiting):
            if len(self._sending) >= SENDING_MAX:
                _log.warning("traces are dropped: %d messages of them are unanswered", SENDING_MAX)
                return
            task = asyncio.create_task(self._tell(message))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    async def _tell(self, message: Message) -> None:
        try:
            await self._send(message)
        except CometMQError as error:
            _log.warning("traces are lost: %s", error)


def send_of(connections: Connections, routes: Routes, client: str, clock: Clock) -> Send:
    """Give what sends traces over a client's connections; ``client`` names its group."""
    sender = Sender(connections, routes, SendSettings(f"{GROUP_PREFIX}-{client}"), clock)
    ids = unique_ids()
    return lambda message: sender.send(outgoing.one(message, ids.make(clock.now_ms())))


def messages_of(noted: Sequence[Noted]) -> list[Message]:
    """Give messages that tell of others: one for each topic, found by the ids and keys of those."""
    messages = []
    for _topic, some in groupby(sorted(noted, key=attrgetter("topic")), key=attrgetter("topic")):
        traces = [one.trace for one in some]
        keys = {key for trace in traces for key in (*trace.message_id.split(","), *trace.keys.split())}
        messages.append(Message(TRACE_TOPIC, encode(traces), keys=tuple(sorted(keys))))
    return messages
