"""Frames of pulls and heartbeats, and what they are answered."""

from collections.abc import Callable
from typing import Any

from tests.broker.desk import (
    TOPICS,
    USUAL,
    json_frame,
)

from cometmq.wire.bodies import ConsumerData, Heartbeat, tag_subscription
from cometmq.wire.bodies import encode as encode_body
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command, encode

PULL, LITE = RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE
VERSION = 7
PUSH = {
    "queueId": "0",
    "maxMsgNums": "32",
    "sysFlag": "3",
    "suspendTimeoutMillis": "15000",
    "bname": "broker-a",
    "queueOffset": "0",
    "commitOffset": "0",
    "requestSource": "0",
    "topic": "TopicA",
    "subVersion": str(VERSION),
    "consumerGroup": "cg",
    "maxMsgBytes": "262144",
    "expressionType": "TAG",
}
"""What the Java push consumer asks."""


def heartbeat(*groups: str, tags: str = "*", version: int = VERSION, **changes: Any) -> bytes:
    subscriptions = [tag_subscription(topic, tags, version) for topic in TOPICS]
    consumers = [ConsumerData(group, subscriptions=subscriptions, **changes) for group in groups]
    return encode(Command(RequestCode.HEART_BEAT, 5, body=encode_body(Heartbeat("c", consumers=consumers))))


def send(queue_id: int = 0, topic: str = "TopicA", tag: str = "TagA", body: bytes = b"body") -> bytes:
    return json_frame(USUAL | {"b": topic, "e": str(queue_id), "i": f"UNIQ_KEY\1k1\2TAGS\1{tag}\2"}, 3, body)


def pull(opaque: int = 1, frame: Callable[..., bytes] = json_frame, **changes: str) -> bytes:
    return frame(PUSH | changes, opaque, b"", code=PULL)
