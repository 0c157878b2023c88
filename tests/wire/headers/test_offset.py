from collections.abc import Callable

import pytest

from cometmq.wire import headers as h


@pytest.mark.parametrize(
    ("header", "java_name"),
    [
        (h.OffsetResponseHeader, "GetMaxOffsetResponseHeader"),
        (h.QueryConsumerOffsetHeader, "QueryConsumerOffsetRequestHeader"),
        (h.UpdateConsumerOffsetHeader, "UpdateConsumerOffsetRequestHeader"),
        (h.SearchOffsetHeader, "SearchOffsetRequestHeader"),
        (h.ResetOffsetHeader, "ResetOffsetRequestHeader"),
        (h.CloneOffsetHeader, "CloneGroupOffsetRequestHeader"),
        (h.GetMaxOffsetHeader, "GetMaxOffsetRequestHeader"),
        (h.GetMinOffsetHeader, "GetMinOffsetRequestHeader"),
        (h.GetEarliestStoreTimeHeader, "GetEarliestMsgStoretimeRequestHeader"),
        (h.GetEarliestStoreTimeResponseHeader, "GetEarliestMsgStoretimeResponseHeader"),
    ],
)
def test_fields_are_those_of_the_java_class(
    header: type[h.Header], java_name: str, differences: Callable[[type[h.Header], str], list[str]]
) -> None:
    assert differences(header, java_name) == []
