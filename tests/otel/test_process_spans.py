"""Spans of the handling of messages."""

import pytest

pytest.importorskip("opentelemetry.sdk", reason="OpenTelemetry is not installed: it is in requirements.lock")

from opentelemetry.trace import SpanKind, StatusCode
from tests.otel.spans import Recorded, stored_message

from cometmq import Retry
from cometmq.otel.process_spans import ProcessSpans

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TRACE_ID, SPAN_ID = 0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331


def test_the_span_of_a_message_is_a_child_of_that_which_sent_it_and_the_handler_s_are_its() -> None:
    recorded = Recorded()
    messages = [stored_message({"traceparent": PARENT})]
    with (
        ProcessSpans(recorded.tracer).handling("billing", messages),
        recorded.tracer.start_as_current_span("select"),
    ):
        pass
    span, child = recorded.named("process orders"), recorded.named("select")
    assert span.kind is SpanKind.CONSUMER and span.parent is not None
    assert (span.parent.trace_id, span.parent.span_id) == (TRACE_ID, SPAN_ID)
    assert [link.context.span_id for link in span.links] == [SPAN_ID]
    assert child.parent == span.get_span_context()
    assert span.attributes is not None
    assert span.attributes["messaging.consumer.group.name"] == "billing"
    assert span.attributes["messaging.message.id"] == "id-0"


def test_the_span_of_a_batch_has_links_to_those_that_sent_its_messages() -> None:
    recorded = Recorded()
    batch = [stored_message({"traceparent": PARENT}), stored_message({}, number=1)]
    with (
        recorded.tracer.start_as_current_span("ours"),
        ProcessSpans(recorded.tracer).handling("billing", batch),
    ):
        pass
    span = recorded.named("process orders")
    assert [link.context.span_id for link in span.links] == [SPAN_ID]
    assert span.parent == recorded.named("ours").get_span_context()


def test_a_message_without_a_context_begins_a_trace() -> None:
    recorded = Recorded()
    with ProcessSpans(recorded.tracer).handling("billing", [stored_message({})]):
        pass
    span = recorded.named("process orders")
    assert span.parent is None and not span.links


def test_what_a_handler_raises_is_the_span_s_error() -> None:
    recorded = Recorded()
    with pytest.raises(Retry), ProcessSpans(recorded.tracer).handling("billing", [stored_message({})]):
        raise Retry(delay_level=3)
    span = recorded.named("process orders")
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes is not None and span.attributes["error.type"] == "Retry"
