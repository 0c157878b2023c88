"""Stored messages as a consumer gets them, and requests of producers that were answered."""

from typing import Any

from msgspec.structs import replace

from cometmq.client.producer.request import received_reply
from cometmq.format import properties
from cometmq.message import StoredMessage
from cometmq.wire.headers import PushReplyHeader


def new_stored(body: bytes = b"body", **changes: Any) -> StoredMessage:
    values = dict.fromkeys(StoredMessage.__struct_fields__, 0) | {
        "topic": "T",
        "message_id": "m",
        "offset_id": "o",
        "tags": None,
        "keys": ("a", "b"),
        "properties": {"KEYS": "a b"},
        "body": body,
        "born_host": "127.0.0.1:1",
        "store_host": "127.0.0.1:2",
    }
    return StoredMessage(**values | changes)


ASKED = {"CORRELATION_ID": "42", "REPLY_TO_CLIENT": "10.0.0.1@asker", "TTL": "3000"}
HEADER = PushReplyHeader(
    producer_group="g",
    topic="c_REPLY_TOPIC",
    default_topic="TBW102",
    default_topic_queue_count=4,
    queue_id=3,
    sys_flag=0,
    born_time=1_000,
    flag=5,
    born_host="10.0.0.2:1234",
    store_host="10.0.0.3:10911",
    store_time=2_000,
    properties=properties.encode(ASKED | {"UNIQ_KEY": "ID", "TAGS": "t", "KEYS": "k  l"}).decode(),
    reconsume_times=1,
)


def stored(**named: str) -> StoredMessage:
    return replace(received_reply(HEADER, b"x", 0), topic="Prices", properties=named)
