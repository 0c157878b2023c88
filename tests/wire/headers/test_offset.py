from collections.abc import Callable

import pytest

from cometmq.wire.headers.fields import Header
from cometmq.wire.headers.offset import (
    CloneOffsetHeader,
    GetEarliestStoreTimeHeader,
    GetEarliestStoreTimeResponseHeader,
    GetMaxOffsetHeader,
    GetMinOffsetHeader,
    OffsetResponseHeader,
    QueryConsumerOffsetHeader,
    ResetOffsetHeader,
    SearchOffsetHeader,
    UpdateConsumerOffsetHeader,
)


@pytest.mark.parametrize(
    ("header", "java_name"),
    [
        (OffsetResponseHeader, "GetMaxOffsetResponseHeader"),
        (QueryConsumerOffsetHeader, "QueryConsumerOffsetRequestHeader"),
        (UpdateConsumerOffsetHeader, "UpdateConsumerOffsetRequestHeader"),
        (SearchOffsetHeader, "SearchOffsetRequestHeader"),
        (ResetOffsetHeader, "ResetOffsetRequestHeader"),
        (CloneOffsetHeader, "CloneGroupOffsetRequestHeader"),
        (GetMaxOffsetHeader, "GetMaxOffsetRequestHeader"),
        (GetMinOffsetHeader, "GetMinOffsetRequestHeader"),
        (GetEarliestStoreTimeHeader, "GetEarliestMsgStoretimeRequestHeader"),
        (GetEarliestStoreTimeResponseHeader, "GetEarliestMsgStoretimeResponseHeader"),
    ],
)
def test_fields_are_those_of_the_java_class(
    header: type[Header], java_name: str, differences: Callable[[type[Header], str], list[str]]
) -> None:
    assert differences(header, java_name) == []
