"""Spans of OpenTelemetry: of what producers send, and of what consumers handle.

::

    async with TracedProducer("127.0.0.1:9876") as producer: ...
    consumer = Consumer("127.0.0.1:9876", group="billing", hooks=[ProcessSpans()])

A message carries the context of its send in its properties ``traceparent`` and ``tracestate``, as W3C's
Trace Context names them, and those of the other propagators that are set. Names and attributes follow
OpenTelemetry's semantic conventions for messaging and for RocketMQ.

Page: ``docs/internals/clients.md``.
"""

from typing import TYPE_CHECKING, Final

from cometmq import extras, lazy

extras.require("otel", "cometmq.otel")

if TYPE_CHECKING:
    from cometmq.otel.process_spans import ProcessSpans
    from cometmq.otel.producers import TracedProducer, TracedTransactionProducer
    from cometmq.otel.propagation import context_of
    from cometmq.otel.send_spans import sending

__all__ = ["ProcessSpans", "TracedProducer", "TracedTransactionProducer", "context_of", "sending"]

_HOMES: Final = {
    "ProcessSpans": "cometmq.otel.process_spans",
    "TracedProducer": "cometmq.otel.producers",
    "TracedTransactionProducer": "cometmq.otel.producers",
    "context_of": "cometmq.otel.propagation",
    "sending": "cometmq.otel.send_spans",
}

__getattr__ = lazy.importer(__name__, _HOMES)
