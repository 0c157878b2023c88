from collections.abc import Callable

import pytest

from cometmq.wire.headers.fields import Header
from cometmq.wire.headers.namesrv import (
    AddWritePermResponseHeader,
    BrokerHeader,
    BrokerHeartbeatHeader,
    BrokerMemberGroupHeader,
    BrokerNameHeader,
    ClusterHeader,
    ConfigKeyHeader,
    DeleteTopicInNamesrvHeader,
    GetConfigResponseHeader,
    GetRouteHeader,
    NamespaceHeader,
    PutConfigHeader,
    QueryDataVersionResponseHeader,
    RegisterBrokerHeader,
    RegisterBrokerResponseHeader,
    WipeWritePermResponseHeader,
)


@pytest.mark.parametrize(
    ("header", "java_name"),
    [
        (PutConfigHeader, "PutKVConfigRequestHeader"),
        (ConfigKeyHeader, "GetKVConfigRequestHeader"),
        (GetConfigResponseHeader, "GetKVConfigResponseHeader"),
        (NamespaceHeader, "GetKVListByNamespaceRequestHeader"),
        (BrokerHeader, "UnRegisterBrokerRequestHeader"),
        (RegisterBrokerHeader, "RegisterBrokerRequestHeader"),
        (RegisterBrokerResponseHeader, "RegisterBrokerResponseHeader"),
        (QueryDataVersionResponseHeader, "QueryDataVersionResponseHeader"),
        (GetRouteHeader, "GetRouteInfoRequestHeader"),
        (BrokerNameHeader, "WipeWritePermOfBrokerRequestHeader"),
        (WipeWritePermResponseHeader, "WipeWritePermOfBrokerResponseHeader"),
        (AddWritePermResponseHeader, "AddWritePermOfBrokerResponseHeader"),
        (DeleteTopicInNamesrvHeader, "DeleteTopicFromNamesrvRequestHeader"),
        (ClusterHeader, "GetTopicsByClusterRequestHeader"),
        (BrokerMemberGroupHeader, "GetBrokerMemberGroupRequestHeader"),
        (BrokerHeartbeatHeader, "BrokerHeartbeatRequestHeader"),
    ],
)
def test_fields_are_those_of_the_java_class(
    header: type[Header], java_name: str, differences: Callable[[type[Header], str], list[str]]
) -> None:
    assert differences(header, java_name) == []
