from typing import Any

import pytest

from cometmq.message import MessageQueue
from cometmq.wire.bodies.body import Body, decode, encode
from cometmq.wire.bodies.stats import (
    ConsumeOffset,
    ConsumeStats,
    QueueOffsets,
    TextTable,
    TopicOffset,
    TopicStats,
)

QUEUE = MessageQueue("TopicA", "broker-a", 0)
KEY = '{"brokerName":"broker-a","queueId":0,"topic":"TopicA"}'
TOPIC_STATS = (
    '{"offsetTable":{'
    '{"brokerName":"broker-a","queueId":0,"topic":"TopicA"}:{"lastUpdateTimestamp":0,"maxOffset":5,"minOffset":0},'
    '{"brokerName":"broker-a","queueId":1,"topic":"TopicA"}:{"lastUpdateTimestamp":7,"maxOffset":2,"minOffset":1}'
    '},"topicPutTps":0.0}'
)
CONSUME_STATS = (
    '{"consumeTps":0.0,"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"TopicA"}:'
    '{"brokerOffset":7,"consumerOffset":0,"lastTimestamp":0,"pullOffset":0}}}'
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            TopicStats({QUEUE: TopicOffset(max_offset=5), QUEUE._replace(queue_id=1): TopicOffset(7, 2, 1)}),
            TOPIC_STATS,
        ),
        (ConsumeStats(offsets={QUEUE: ConsumeOffset(7)}), CONSUME_STATS),
        (QueueOffsets({QUEUE: 5}), f'{{"offsetTable":{{{KEY}:5}}}}'),
        (TextTable({"putTps": "1.0 2.0 3.0"}), '{"table":{"putTps":"1.0 2.0 3.0"}}'),
    ],
    ids=lambda value: type(value).__name__,
)
def test_reads_and_writes_as_java_does(value: Any, text: str) -> None:
    body_type: type[Body] = type(value)
    assert encode(value).decode() == text
    assert decode(body_type, text.encode()) == value
