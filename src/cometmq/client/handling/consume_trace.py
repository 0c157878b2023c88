"""Trace records of handled messages: one before the handler is called, one after it.

Source: RocketMQ ``client/trace/hook/ConsumeMessageTraceHookImpl.java``.
"""

import secrets
from collections.abc import Awaitable, Sequence

from cometmq.client.handling.outcome import DeadLetter, Retry
from cometmq.client.producer.trace import REGION, Send, Tracer
from cometmq.format import properties
from cometmq.io.clock import Clock
from cometmq.message import StoredMessage
from cometmq.wire.bodies.trace import TRACE_TOPIC, AfterTrace, BeforeTrace, Outcome


class ConsumeTracer(Tracer):
    """Records traces of the messages that a group's member handles."""

    def __init__(self, send: Send, group: str, clock: Clock) -> None:
        super().__init__(send)
        self._group = group
        self._clock = clock

    async def watch(self, messages: Sequence[StoredMessage], handling: Awaitable[None]) -> None:
        """Wait for the handling of messages and record it. Raises what it raises."""
        request_id, began_ms = secrets.token_hex(16).upper(), self._clock.now_ms()
        self.begin(messages, request_id)
        outcome = Outcome.EXCEPTION
        try:
            await handling
            outcome = Outcome.SUCCESS
        except (Retry, DeadLetter):
            outcome = Outcome.FAILED
            raise
        finally:
            self.end(messages, request_id, self._clock.now_ms() - began_ms, outcome)

    def begin(self, messages: Sequence[StoredMessage], request_id: str) -> None:
        """Record that the handling of messages begins; ``request_id`` names it, in upper-case hex."""
        now_ms = self._clock.now_ms()
        for message in filter(is_traced, messages):
            trace = BeforeTrace(
                now_ms,
                message.properties.get(properties.MSG_REGION, REGION),
                self._group,
                request_id,
                message.message_id,
                message.reconsume_times,
                _keys(message),
            )
            self.record(message.topic, trace)

    def end(
        self, messages: Sequence[StoredMessage], request_id: str, spent_ms: int, outcome: Outcome
    ) -> None:
        """Record that the handling of messages has ended; ``spent_ms`` is how long it took in all."""
        now_ms = self._clock.now_ms()
        for message in filter(is_traced, messages):
            trace = AfterTrace(
                request_id,
                message.message_id,
                spent_ms // len(messages),
                outcome is Outcome.SUCCESS,
                _keys(message),
                outcome,
                now_ms,
                self._group,
            )
            self.record(message.topic, trace)


def is_traced(message: StoredMessage) -> bool:
    """Return whether a message's broker has traces on; trace messages themselves are not traced."""
    return message.properties.get(properties.TRACE_ON) != "false" and message.topic != TRACE_TOPIC


def _keys(message: StoredMessage) -> str:
    return properties.KEY_SEPARATOR.join(message.keys)
