from collections.abc import Callable

import pytest

from cometmq.wire.headers.admin import (
    CreateTopicHeader,
    DeleteGroupHeader,
    GetAllGroupConfigHeader,
    GetAllGroupConfigResponseHeader,
    GetAllTopicConfigHeader,
    GetAllTopicConfigResponseHeader,
    GetBrokerConfigResponseHeader,
    GetConsumeStatsHeader,
    GroupHeader,
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
        (StatisticHeader, "ViewBrokerStatsDataRequestHeader"),
    ],
)
def test_fields_are_those_of_the_java_class(
    header: type[Header], java_name: str, differences: Callable[[type[Header], str], list[str]]
) -> None:
    assert differences(header, java_name) == []
