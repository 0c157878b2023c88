from typing import Any

import pytest

from cometmq.wire.bodies.body import Body, decode, encode
from cometmq.wire.bodies.topic import DataVersion, TopicConfig, TopicConfigs, TopicNames, TopicTable

TOPIC = TopicConfig("TopicA", 8, 8, attributes={"message.type": "FIFO"})
TOPIC_JSON = (
    '{"attributes":{"message.type":"FIFO"},"order":false,"perm":6,"readQueueNums":8,"topicFilterType":"SINGLE_TAG",'
    '"topicName":"TopicA","topicSysFlag":0,"writeQueueNums":8}'
)
VERSION_JSON = '{"counter":1,"stateVersion":0,"timestamp":7}'
WITH_MAPPINGS_JSON = (
    f'{{"dataVersion":{VERSION_JSON},"mappingDataVersion":{{"counter":0,"stateVersion":0,"timestamp":0}},'
    '"topicConfigTable":{},"topicQueueMappingDetailMap":{},"topicQueueMappingInfoMap":{}}'
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (DataVersion(1, 0, 7), VERSION_JSON),
        (TOPIC, TOPIC_JSON),
        (TopicConfigs([TOPIC]), f'{{"topicConfigList":[{TOPIC_JSON}]}}'),
        (
            TopicTable(DataVersion(1, 0, 7), {"TopicA": TOPIC}),
            f'{{"dataVersion":{VERSION_JSON},"topicConfigTable":{{"TopicA":{TOPIC_JSON}}}}}',
        ),
        (
            TopicTable(DataVersion(1, 0, 7), {}, DataVersion(), {}, {}),
            WITH_MAPPINGS_JSON,
        ),
        (TopicNames(["A", "B"]), '{"topicList":["A","B"]}'),
        (TopicNames(["A"], "1.2.3.4:10911"), '{"brokerAddr":"1.2.3.4:10911","topicList":["A"]}'),
    ],
)
def test_reads_and_writes_as_java_does(value: Any, text: str) -> None:
    body_type: type[Body] = type(value)
    assert encode(value).decode() == text
    assert decode(body_type, text.encode()) == value


def test_a_topic_as_a_4_x_broker_has_it_is_completed() -> None:
    assert decode(
        TopicTable, b'{"dataVersion":{"counter":3,"timestamp":5},"topicConfigTable":{"T":{"topicName":"T"}}}'
    ) == (TopicTable(DataVersion(3, 0, 5), {"T": TopicConfig("T")}))


def test_a_change_counts_the_version_up() -> None:
    assert DataVersion(3, 1, 5).next(9) == DataVersion(4, 1, 9)
