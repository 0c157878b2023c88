from typing import Any

import pytest

from cometmq.wire.bodies.body import Body, decode, encode
from cometmq.wire.bodies.group import (
    ClientConnection,
    ConsumerConnections,
    ConsumerIds,
    ConsumerOffsets,
    GroupConfig,
    GroupConfigs,
    GroupNames,
    ProducerConnections,
)
from cometmq.wire.bodies.heartbeat import tag_subscription
from cometmq.wire.bodies.topic import DataVersion
from cometmq.wire.codes import LanguageCode

CONNECTION = ClientConnection("1.2.3.4:5", "id", LanguageCode.JAVA, 479)
CONNECTION_JSON = '{"clientAddr":"1.2.3.4:5","clientId":"id","language":"JAVA","version":479}'
GROUP_JSON = (
    '{"attributes":{},"brokerId":0,"consumeBroadcastEnable":true,"consumeEnable":true,"consumeFromMinEnable":true,'
    '"consumeMessageOrderly":false,"consumeTimeoutMinute":15,"groupName":"cg","groupRetryPolicy":{"type":"CUSTOMIZED"},'
    '"groupSysFlag":0,"notifyConsumerIdsChangedEnable":true,"retryMaxTimes":16,"retryQueueNums":1,'
    '"whichBrokerWhenConsumeSlowly":1}'
)
CONSUMERS_JSON = (
    f'{{"connectionSet":[{CONNECTION_JSON}],"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET",'
    '"consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING","subscriptionTable":{"TopicA":'
    '{"classFilterMode":false,"codeSet":[2598919],"expressionType":"TAG","subString":"TagA","subVersion":9,'
    '"tagsSet":["TagA"],"topic":"TopicA"}}}'
)
GROUPS_JSON = (
    '{"dataVersion":{"counter":0,"stateVersion":0,"timestamp":7},"forbiddenTable":{},'
    f'"subscriptionGroupTable":{{"cg":{GROUP_JSON}}}}}'
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (ConsumerIds(["a@b", "c@d"]), '{"consumerIdList":["a@b","c@d"]}'),
        (GroupNames(["g"]), '{"groupList":["g"]}'),
        (ProducerConnections([CONNECTION]), f'{{"connectionSet":[{CONNECTION_JSON}]}}'),
        (
            ConsumerConnections(
                [CONNECTION], subscriptions={"TopicA": tag_subscription("TopicA", "TagA", 9)}
            ),
            CONSUMERS_JSON,
        ),
        (GroupConfig("cg"), GROUP_JSON),
        (
            GroupConfigs(DataVersion(0, 0, 7), groups={"cg": GroupConfig("cg")}),
            GROUPS_JSON,
        ),
        (ConsumerOffsets(offsets={"T@g": {0: 5, 1: 6}}), '{"offsetTable":{"T@g":{0:5,1:6}}}'),
    ],
    ids=lambda value: type(value).__name__,
)
def test_reads_and_writes_as_java_does(value: Any, text: str) -> None:
    body_type: type[Body] = type(value)
    assert encode(value).decode() == text
    assert decode(body_type, text.encode()) == value


def test_the_offsets_file_has_a_member_that_is_derived_from_the_others() -> None:
    assert decode(ConsumerOffsets, b'{"groupTopicMap":{"g":["T"]},"offsetTable":{"T@g":{0:5}}}').offsets == {
        "T@g": {0: 5}
    }


def test_a_group_as_a_4_x_broker_has_it_is_completed() -> None:
    assert decode(GroupConfig, b'{"groupName":"cg","retryMaxTimes":3}') == GroupConfig(
        "cg", retry_max_times=3
    )
