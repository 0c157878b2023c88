"""Spans of sends."""

import pytest

pytest.importorskip("opentelemetry.sdk", reason="OpenTelemetry is not installed: it is in requirements.lock")

from opentelemetry.trace import SpanKind, StatusCode
from tests.otel.spans import Recorded, trace_parent

from cometmq.blocking import Producer
from cometmq.errors import IllegalType
from cometmq.message import Message
from cometmq.otel.send_spans import sending
from cometmq.testing import EmbeddedBroker


def test_a_send_is_a_span_of_a_producer_whose_context_the_messages_carry() -> None:
    recorded = Recorded()
    messages = [Message("orders", b"x"), Message("orders", b"y")]
    with (
        recorded.tracer.start_as_current_span("shop"),
        sending(messages, recorded.tracer) as many,
    ):
        carried = {message.properties["traceparent"] for message in many.messages}
    span = recorded.named("send orders")
    assert span.kind is SpanKind.PRODUCER and carried == {trace_parent(span)}
    assert span.parent is not None and span.parent == recorded.named("shop").get_span_context()


def test_messages_of_several_topics_are_a_span_without_a_topic() -> None:
    recorded = Recorded()
    with sending([Message("orders", b""), Message("bills", b"")], recorded.tracer):
        pass
    assert recorded.named("send").attributes is not None


def test_a_failure_is_the_span_s_error() -> None:
    recorded = Recorded()
    with pytest.raises(LookupError), sending([Message("orders", b"")], recorded.tracer):
        raise LookupError("no route")
    span = recorded.named("send orders")
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes is not None and span.attributes["error.type"] == "LookupError"


def test_what_is_no_message_is_refused() -> None:
    with pytest.raises(IllegalType), sending(["an order"]):  # type: ignore[list-item] # that is the fault
        pass


def test_a_producer_for_threads_sends_within_a_span(rocketmq: EmbeddedBroker) -> None:
    recorded = Recorded()
    with (
        Producer(rocketmq.name_server) as producer,
        sending([Message("orders", b"x")], recorded.tracer) as one,
    ):
        result = one.stored(producer.send(one.message))
    [stored] = rocketmq.messages("orders")
    span = recorded.named("send orders")
    assert stored.properties["traceparent"] == trace_parent(span)
    assert span.attributes is not None and span.attributes["messaging.message.id"] == result.message_id
