from collections.abc import Callable

import pytest

from cometmq.wire.headers import admin as h
from cometmq.wire.headers.fields import Header


@pytest.mark.parametrize(
    ("header", "java_name"),
    [
        (h.CreateTopicHeader, "CreateTopicRequestHeader"),
        (h.TopicHeader, "GetTopicConfigRequestHeader"),
        (h.GetAllTopicConfigHeader, "GetAllTopicConfigRequestHeader"),
        (h.GetAllTopicConfigResponseHeader, "GetAllTopicConfigResponseHeader"),
        (h.GetBrokerConfigResponseHeader, "GetBrokerConfigResponseHeader"),
        (h.GetAllGroupConfigHeader, "GetAllSubscriptionGroupRequestHeader"),
        (h.GetAllGroupConfigResponseHeader, "GetAllSubscriptionGroupResponseHeader"),
        (h.DeleteGroupHeader, "DeleteSubscriptionGroupRequestHeader"),
        (h.GetConsumeStatsHeader, "GetConsumeStatsRequestHeader"),
        (h.GroupHeader, "GetSubscriptionGroupConfigRequestHeader"),
        (h.BrokerConsumeStatsHeader, "GetConsumeStatsInBrokerHeader"),
        (h.ConsumerStatusHeader, "GetConsumerStatusRequestHeader"),
        (h.CorrectionOffsetHeader, "QueryCorrectionOffsetHeader"),
        (h.GroupForbiddenHeader, "UpdateGroupForbiddenRequestHeader"),
        (h.GroupSubscriptionHeader, "QuerySubscriptionByConsumerRequestHeader"),
        (h.GroupTopicHeader, "QueryConsumeTimeSpanRequestHeader"),
        (h.QueueWritesHeader, "CheckRocksdbCqWriteProgressRequestHeader"),
        (h.ResumeCheckHeader, "ResumeCheckHalfMessageRequestHeader"),
        (h.StatisticHeader, "ViewBrokerStatsDataRequestHeader"),
    ],
)
def test_fields_are_those_of_the_java_class(
    header: type[Header], java_name: str, differences: Callable[[type[Header], str], list[str]]
) -> None:
    assert differences(header, java_name) == []
