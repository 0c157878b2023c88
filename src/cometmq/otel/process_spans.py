"""Spans of the handling of messages.

The span of one message is a child of the span that sent it. The span of a batch has links to those that sent
its messages, and belongs to the trace of whoever handles it.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.trace import Link, SpanKind, Tracer

from cometmq.message import StoredMessage
from cometmq.otel.attributes import ERROR_TYPE, attributes_of, common_topic
from cometmq.otel.propagation import context_of
from cometmq.otel.send_spans import TRACER


class ProcessSpans:
    """A hook of consumers: ``Consumer(..., hooks=[ProcessSpans()])``.

    Spans that a handler starts are children of the span of its message.

    Args:
        tracer: makes the spans; by default of the global tracer provider.
    """

    def __init__(self, tracer: Tracer = TRACER) -> None:
        self._tracer = tracer

    @contextmanager
    def handling(self, group: str, messages: Sequence[StoredMessage]) -> Iterator[None]:
        """Start a span; it is left with the handler's exception as its error."""
        contexts = [context_of(message) for message in messages]
        links = [
            Link(span_context)
            for context in contexts
            if (span_context := trace.get_current_span(context).get_span_context()).is_valid
        ]
        topic = common_topic(messages)
        attributes = attributes_of("process", messages) | {"messaging.consumer.group.name": group}
        with self._tracer.start_as_current_span(
            "process" if topic is None else f"process {topic}",
            context=contexts[0] if len(messages) == 1 and links else None,
            kind=SpanKind.CONSUMER,
            attributes=attributes,
            links=links,
        ) as span:
            try:
                yield
            except BaseException as error:
                span.set_attribute(ERROR_TYPE, type(error).__qualname__)
                raise
