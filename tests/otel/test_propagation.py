"""The context of a trace in a message's properties, as W3C writes it."""

import pytest

pytest.importorskip("opentelemetry.sdk", reason="OpenTelemetry is not installed: it is in requirements.lock")

from opentelemetry import trace
from tests.otel.spans import Recorded, stored_message, trace_parent

from cometmq.message import Message
from cometmq.otel.propagation import context_of, with_context

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_a_message_carries_the_current_span() -> None:
    recorded, message = Recorded(), Message("orders", b"", properties={"size": "5"})
    with recorded.tracer.start_as_current_span("ours"):
        carrying = with_context(message)
    assert carrying.properties == {"size": "5", "traceparent": trace_parent(recorded.named("ours"))}
    assert message.properties == {"size": "5"}
    assert with_context(message) == message, "nothing to carry"


def test_a_message_s_span_is_found_whatever_is_current() -> None:
    with Recorded().tracer.start_as_current_span("another"):
        found = trace.get_current_span(context_of(stored_message({"traceparent": PARENT})))
        none = trace.get_current_span(context_of(stored_message({})))
    context = found.get_span_context()
    assert (context.trace_id, context.span_id) == (0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331)
    assert context.is_remote and not none.get_span_context().is_valid


@pytest.mark.parametrize("text", ["", "00-0-0-01", "no trace", PARENT.replace("b7ad6b7169203331", "0" * 16)])
def test_what_is_no_context_is_none(text: str) -> None:
    found = trace.get_current_span(context_of(stored_message({"traceparent": text})))
    assert not found.get_span_context().is_valid
