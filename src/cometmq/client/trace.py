"""Message trace: what was sent, told to RMQ_SYS_TRACE_TOPIC in RocketMQ's own format.

Source: RocketMQ ``client/trace/AsyncTraceDispatcher.java``, ``SendMessageTraceHookImpl.java``.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final

from cometmq.client.hooks import Attempt
from cometmq.client.send_result import SendStatus
from cometmq.errors import CometMQError
from cometmq.format import properties
from cometmq.message import Message
from cometmq.wire.bodies.trace import TRACE_TOPIC, MessageKind, PubTrace, encode

FLUSH_COUNT: Final = 20
FLUSH_S: Final = 5.0
SENDING_MAX: Final = 100
"""How many trace messages may be unanswered; beyond, traces are dropped."""
REGION: Final = "DefaultRegion"

_log = logging.getLogger(__name__)


class Tracer:
    """A hook that tells of each send that a broker has answered.

    Args:
        send: sends one message, which will not be traced.
    """

    def __init__(self, send: Callable[[Message], Awaitable[object]]) -> None:
        self._send = send
        self._waiting: list[PubTrace] = []
        self._timer: asyncio.TimerHandle | None = None
        self._sending: set[asyncio.Task[None]] = set()

    def before_send(self, attempt: Attempt) -> None:
        """Do nothing: a send is told of when it is over."""

    def after_send(self, attempt: Attempt) -> None:
        """Note a send."""
        trace = trace_of(attempt)
        if trace is None:
            return
        self._waiting.append(trace)
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


def trace_of(attempt: Attempt) -> PubTrace | None:
    """Give the record of a try; None if no broker answered it, or the broker wants no traces."""
    ready, answer, result = attempt.ready, attempt.answer, attempt.result
    if answer is None or result is None or answer.ext_fields.get("TRACE_ON") == "false":
        return None
    by_name = properties.decode(ready.properties.encode())
    return PubTrace(
        attempt.born_time,
        answer.ext_fields.get("MSG_REGION") or REGION,
        attempt.group,
        ready.topic,
        ",".join(ready.message_ids),
        by_name.get(properties.TAGS, ""),
        by_name.get(properties.KEYS, ""),
        attempt.address,
        len(ready.body),
        attempt.cost_ms,
        MessageKind.DELAYED if properties.DELAY in by_name else MessageKind.NORMAL,
        result.offset_id,
        result.status is SendStatus.SEND_OK,
    )


def messages_of(traces: Sequence[PubTrace]) -> list[Message]:
    """Give messages that tell of sends: one for each topic, found by the ids and keys of what was sent."""
    messages = []
    for _topic, some in groupby(sorted(traces, key=attrgetter("topic")), key=attrgetter("topic")):
        group = list(some)
        keys = {key for trace in group for key in (*trace.message_id.split(","), *trace.keys.split())}
        messages.append(Message(TRACE_TOPIC, encode(group), keys=tuple(sorted(keys))))
    return messages
