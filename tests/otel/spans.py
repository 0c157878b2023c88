"""Spans that are kept in memory."""

from collections.abc import Mapping

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Tracer
from tests.kit.messages import new_stored

from cometmq.message import StoredMessage


class Recorded:
    """A tracer and the spans that it has made, those that have ended."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer: Tracer = provider.get_tracer("test")

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return self._exporter.get_finished_spans()

    def named(self, name: str) -> ReadableSpan:
        (span,) = (span for span in self.spans if span.name == name)
        return span


def trace_parent(span: ReadableSpan) -> str:
    """Return a span's context as W3C writes it."""
    context = span.get_span_context()
    assert context is not None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def is_child(span: ReadableSpan, parent: ReadableSpan) -> bool:
    """Return whether a span's parent is another one, here or in another process."""
    wanted = parent.get_span_context()
    assert span.parent is not None and wanted is not None
    return (span.parent.trace_id, span.parent.span_id) == (wanted.trace_id, wanted.span_id)


def stored_message(properties: Mapping[str, str], topic: str = "orders", number: int = 0) -> StoredMessage:
    return new_stored(
        topic=topic,
        queue_offset=number,
        message_id=f"id-{number}",
        tags=properties.get("TAGS"),
        keys=("42",),
        properties=properties,
    )
