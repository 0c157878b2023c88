"""The context of a trace in a message's properties, by the propagators that are set; by default W3C's."""

from msgspec.structs import replace
from opentelemetry import propagate
from opentelemetry.context import Context

from cometmq.message import Message, StoredMessage


def with_context(message: Message) -> Message:
    """Return a message with the current context in its properties."""
    properties = dict(message.properties)
    propagate.inject(properties)
    return replace(message, properties=properties)


def context_of(message: StoredMessage) -> Context:
    """Return the context that a message carries; it has no span if the message carries none.

    For messages that a program pulls: ``tracer.start_as_current_span("...", context=context_of(message))``.
    """
    return propagate.extract(message.properties, context=Context())
