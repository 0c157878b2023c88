"""Messages as if a broker had stored them."""

from collections.abc import Mapping

from cometmq.message import StoredMessage


def stored_message(
    body: bytes = b"", properties: Mapping[str, str] | None = None, topic: str = "orders"
) -> StoredMessage:
    own = properties or {}
    return StoredMessage(
        topic=topic,
        queue_id=0,
        queue_offset=0,
        physical_offset=0,
        message_id="id",
        offset_id="",
        tags=own.get("TAGS"),
        keys=(),
        properties=own,
        body=body,
        flag=0,
        sys_flag=0,
        born_time=0,
        born_host="",
        store_time=0,
        store_host="",
        reconsume_times=0,
        body_crc=0,
    )
