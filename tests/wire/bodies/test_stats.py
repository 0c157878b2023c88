from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.errors import FormatError
from cometmq.message import MessageQueue
from cometmq.wire.bodies.body import Body, decode, encode
from cometmq.wire.bodies.stats import (
    ConsumeOffset,
    ConsumeStats,
    ListedEntries,
    ListedEntry,
    QueueOffsets,
    TextTable,
    TopicOffset,
    TopicStats,
    decode_topic_stats,
    encode_topic_stats,
)

NAMES = st.one_of(st.sampled_from(("orders", "a b", "", 'a"b', "a\\b", "主题")), st.text(max_size=5))
NUMBERS = st.one_of(st.integers(0, 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
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
LISTED_ENTRIES = (
    '{"maxQueueIndex":5,"minQueueIndex":1,'
    '"queueData":[{"eval":false,"physicOffset":9,"physicSize":100,"tagsCode":7}]}'
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            TopicStats({QUEUE: TopicOffset(max_offset=5), QUEUE._replace(queue_id=1): TopicOffset(7, 2, 1)}),
            TOPIC_STATS,
        ),
        (ConsumeStats(offsets={QUEUE: ConsumeOffset(7)}), CONSUME_STATS),
        (ListedEntries(5, 1, [ListedEntry(False, 9, 100, 7)]), LISTED_ENTRIES),
        (QueueOffsets({QUEUE: 5}), f'{{"offsetTable":{{{KEY}:5}}}}'),
        (TextTable({"putTps": "1.0 2.0 3.0"}), '{"table":{"putTps":"1.0 2.0 3.0"}}'),
    ],
    ids=lambda value: type(value).__name__,
)
def test_reads_and_writes_as_java_does(value: Any, text: str) -> None:
    body_type: type[Body] = type(value)
    assert encode(value).decode() == text
    assert decode(body_type, text.encode()) == value


@given(
    st.dictionaries(
        st.builds(MessageQueue, NAMES, NAMES, st.integers(-1, 2**31 - 1)),
        st.builds(TopicOffset, NUMBERS, NUMBERS, NUMBERS),
        max_size=4,
    ),
    st.booleans(),
)
def test_a_table_of_many_queues_is_read_as_any_body_is(
    offsets: dict[MessageQueue, TopicOffset], has_blanks: bool
) -> None:
    stats = TopicStats(offsets, 1.5)
    data = encode(stats)
    if has_blanks:
        data = data.replace(b"},{", b"} ,\n{")
    assert decode_topic_stats(data) == stats == decode(TopicStats, data)


@given(NAMES, NAMES, st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), max_size=4))
def test_the_queues_of_a_topic_are_written_as_any_body_is(
    topic: str, broker_name: str, queues: list[tuple[int, int, int]]
) -> None:
    offsets = {
        MessageQueue(topic, broker_name, queue_id): TopicOffset(time, high, low)
        for queue_id, (low, high, time) in enumerate(queues)
    }
    assert encode_topic_stats(topic, broker_name, queues, 1.5) == encode(TopicStats(offsets, 1.5))


def test_what_is_no_table_is_refused_or_empty_as_any_body_is() -> None:
    assert decode_topic_stats(b"{}") == TopicStats()
    assert decode_topic_stats(b'{"topicPutTps":2.0,"offsetTable":{}}') == TopicStats(put_tps=2.0)
    for data in (b"", b'{"offsetTable":{', TOPIC_STATS[:70].encode(), b'{"offsetTable":{5:6}}'):
        with pytest.raises(FormatError):
            decode_topic_stats(data)
