from collections.abc import Callable

import pytest

from cometmq.wire.headers import namesrv as h
from cometmq.wire.headers.fields import Header


@pytest.mark.parametrize(
    ("header", "java_name"),
    [
        (h.PutConfigHeader, "PutKVConfigRequestHeader"),
        (h.ConfigKeyHeader, "GetKVConfigRequestHeader"),
        (h.GetConfigResponseHeader, "GetKVConfigResponseHeader"),
        (h.NamespaceHeader, "GetKVListByNamespaceRequestHeader"),
        (h.BrokerHeader, "UnRegisterBrokerRequestHeader"),
        (h.RegisterBrokerHeader, "RegisterBrokerRequestHeader"),
        (h.RegisterBrokerResponseHeader, "RegisterBrokerResponseHeader"),
        (h.QueryDataVersionResponseHeader, "QueryDataVersionResponseHeader"),
        (h.GetRouteHeader, "GetRouteInfoRequestHeader"),
        (h.BrokerNameHeader, "WipeWritePermOfBrokerRequestHeader"),
        (h.WipeWritePermResponseHeader, "WipeWritePermOfBrokerResponseHeader"),
        (h.AddWritePermResponseHeader, "AddWritePermOfBrokerResponseHeader"),
        (h.DeleteTopicInNamesrvHeader, "DeleteTopicFromNamesrvRequestHeader"),
        (h.ClusterHeader, "GetTopicsByClusterRequestHeader"),
        (h.BrokerMemberGroupHeader, "GetBrokerMemberGroupRequestHeader"),
        (h.BrokerHeartbeatHeader, "BrokerHeartbeatRequestHeader"),
    ],
)
def test_fields_are_those_of_the_java_class(
    header: type[Header], java_name: str, differences: Callable[[type[Header], str], list[str]]
) -> None:
    assert differences(header, java_name) == []
