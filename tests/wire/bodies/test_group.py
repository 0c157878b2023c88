from typing import Any

import pytest

from cometmq.wire import bodies
from cometmq.wire.codes import LanguageCode

CONNECTION = bodies.ClientConnection("1.2.3.4:5", "id", LanguageCode.JAVA, 479)
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
        (bodies.ConsumerIds(["a@b", "c@d"]), '{"consumerIdList":["a@b","c@d"]}'),
        (bodies.GroupNames(["g"]), '{"groupList":["g"]}'),
        (bodies.ProducerConnections([CONNECTION]), f'{{"connectionSet":[{CONNECTION_JSON}]}}'),
        (
            bodies.ConsumerConnections(
                [CONNECTION], subscriptions={"TopicA": bodies.tag_subscription("TopicA", "TagA", 9)}
            ),
            CONSUMERS_JSON,
        ),
        (bodies.GroupConfig("cg"), GROUP_JSON),
        (
            bodies.GroupConfigs(bodies.DataVersion(0, 0, 7), groups={"cg": bodies.GroupConfig("cg")}),
            GROUPS_JSON,
        ),
        (bodies.ConsumerOffsets(offsets={"T@g": {0: 5, 1: 6}}), '{"offsetTable":{"T@g":{0:5,1:6}}}'),
    ],
    ids=lambda value: type(value).__name__,
)
def test_reads_and_writes_as_java_does(value: Any, text: str) -> None:
    body_type: type[bodies.Body] = type(value)
    assert bodies.encode(value).decode() == text
    assert bodies.decode(body_type, text.encode()) == value


def test_the_offsets_file_has_a_member_that_is_derived_from_the_others() -> None:
    assert bodies.decode(
        bodies.ConsumerOffsets, b'{"groupTopicMap":{"g":["T"]},"offsetTable":{"T@g":{0:5}}}'
    ).offsets == {"T@g": {0: 5}}


def test_a_group_as_a_4_x_broker_has_it_is_completed() -> None:
    assert bodies.decode(bodies.GroupConfig, b'{"groupName":"cg","retryMaxTimes":3}') == bodies.GroupConfig(
        "cg", retry_max_times=3
    )
