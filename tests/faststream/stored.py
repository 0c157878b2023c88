"""Messages as if a broker had stored them."""

from collections.abc import Mapping

from tests.kit.messages import new_stored

from cometmq.message import StoredMessage


def stored_message(
    body: bytes = b"", properties: Mapping[str, str] | None = None, topic: str = "orders"
) -> StoredMessage:
    own = properties or {}
    return new_stored(body, topic=topic, message_id="id", tags=own.get("TAGS"), keys=(), properties=own)
