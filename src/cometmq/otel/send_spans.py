"""Spans of sends. A batch is one span, whose context all of its messages carry."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Tracer

from cometmq import __version__
from cometmq.client.producer.send_arguments import listed
from cometmq.client.producer.send_result import SendResult
from cometmq.message import Message
from cometmq.otel.attributes import ERROR_TYPE, MESSAGE_ID, attributes_of, common_topic
from cometmq.otel.propagation import with_context

TRACER: Final = trace.get_tracer("cometmq", __version__)
"""Of the global tracer provider, whenever that is set."""


class TracedSend(NamedTuple):
    """A send within a span: the span, and the messages to send, which carry its context."""

    span: Span
    messages: list[Message]

    @property
    def message(self) -> Message:
        """The message of a send of one."""
        (message,) = self.messages
        return message

    def stored(self, result: SendResult) -> SendResult:
        """Record the id of a message that is stored; return the result."""
        if len(self.messages) == 1:
            self.span.set_attribute(MESSAGE_ID, result.message_id)
        return result


@contextmanager
def sending(messages: Iterable[Message], tracer: Tracer = TRACER) -> Iterator[TracedSend]:
    """Start the span of a send, for producers that make none: those of ``cometmq.blocking``.

    ::

        with sending([message]) as one:
            one.stored(producer.send(one.message))

    Raises IllegalType if they are not messages.
    """
    messages = listed(messages)
    topic = common_topic(messages)
    with tracer.start_as_current_span(
        "send" if topic is None else f"send {topic}",
        kind=SpanKind.PRODUCER,
        attributes=attributes_of("send", messages),
    ) as span:
        try:
            yield TracedSend(span, [with_context(message) for message in messages])
        except BaseException as error:
            span.set_attribute(ERROR_TYPE, type(error).__qualname__)
            raise
