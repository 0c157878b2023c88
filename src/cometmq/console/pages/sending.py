"""Send a message."""

from collections.abc import Mapping

from starlette.responses import Response

from cometmq.client import Producer
from cometmq.console.visit import Visit, parse_number
from cometmq.errors import SettingsError
from cometmq.message import Message


async def form(visit: Visit) -> Response:
    """Show the form."""
    return visit.page("send.html", here="/messages", topic=visit.text("topic"))


async def send(visit: Visit) -> Response:
    """Send the message of the form to a topic that exists, and show it."""
    message = message_of(visit.form)
    await visit.cluster.route(message.topic)  # a send may create the topic: not by a slip of the pen
    cluster = visit.cluster
    servers = ";".join(cluster.name_servers)
    async with Producer(servers, credentials=cluster.credentials, tls=cluster.tls) as producer:
        sent = await producer.send(message)
    if message.is_delayed:
        return visit.go_to("/waiting", topic=message.topic)
    return visit.go_to(f"/messages/{sent.offset_id}", topic=message.topic, sent="1")


def message_of(fields: Mapping[str, str]) -> Message:
    """Build the message of a form. Raises SettingsError."""
    topic = fields.get("topic", "").strip()
    if not topic:
        raise SettingsError("give the topic of the message")
    named: dict[str, str] = {}
    for line in fields.get("properties", "").splitlines():
        name, equals, value = line.partition("=")
        if line.strip() and not equals:
            raise SettingsError(f"property {line[:60]!r}: write it as NAME=VALUE, one a line")
        if line.strip():
            named[name.strip()] = value.strip()
    return Message(
        topic,
        fields.get("body", "").encode(),
        tags=fields.get("tags", "").strip() or None,
        keys=tuple(fields.get("keys", "").split()),
        properties=named,
        delay_ms=parse_number("delay", fields.get("delay", "").strip(), 0) * 1000,
    )
