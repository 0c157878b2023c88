from collections.abc import Callable

import pytest

from cometmq.wire.headers.admin import (
    BrokerConsumeStatsHeader,
    ConsumerStatusHeader,
    CorrectionOffsetHeader,
    CreateTopicHeader,
    DeleteGroupHeader,
    GetAllGroupConfigHeader,
    GetAllGroupConfigResponseHeader,
    GetAllTopicConfigHeader,
    GetAllTopicConfigResponseHeader,
    GetBrokerConfigResponseHeader,
    GetConsumeStatsHeader,
    GroupForbiddenHeader,
    GroupHeader,
    GroupSubscriptionHeader,
    GroupTopicHeader,
    QueueWritesHeader,
    ResumeCheckHeader,
    StatisticHeader,
    TopicHeader,
)
from cometmq.wire.headers.fields import Header


@pytest.mark.parametrize(
    ("header", "java_name"),
    [
        (CreateTopicHeader, "CreateTopicRequestHeader"),
        (TopicHeader, "GetTopicConfigRequestHeader"),
        (GetAllTopicConfigHeader, "GetAllTopicConfigRequestHeader"),
        (GetAllTopicConfigResponseHeader, "GetAllTopicConfigResponseHeader"),
        (GetBrokerConfigResponseHeader, "GetBrokerConfigResponseHeader"),
        (GetAllGroupConfigHeader, "GetAllSubscriptionGroupRequestHeader"),
        (GetAllGroupConfigResponseHeader, "GetAllSubscriptionGroupResponseHeader"),
        (DeleteGroupHeader, "DeleteSubscriptionGroupRequestHeader"),
        (GetConsumeStatsHeader, "GetConsumeStatsRequestHeader"),
        (GroupHeader, "GetSubscriptionGroupConfigRequestHeader"),
        (BrokerConsumeStatsHeader, "GetConsumeStatsInBrokerHeader"),
        (ConsumerStatusHeader, "GetConsumerStatusRequestHeader"),
        (CorrectionOffsetHeader, "QueryCorrectionOffsetHeader"),
        (GroupForbiddenHeader, "UpdateGroupForbiddenRequestHeader"),
        (GroupSubscriptionHeader, "QuerySubscriptionByConsumerRequestHeader"),
        (GroupTopicHeader, "QueryConsumeTimeSpanRequestHeader"),
        (QueueWritesHeader, "CheckRocksdbCqWriteProgressRequestHeader"),
        (ResumeCheckHeader, "ResumeCheckHalfMessageRequestHeader"),
        (StatisticHeader, "ViewBrokerStatsDataRequestHeader"),
    ],
)
def test_fields_are_those_of_the_java_class(
    header: type[Header], java_name: str, differences: Callable[[type[Header], str], list[str]]
) -> None:
    assert differences(header, java_name) == []
