from collections.abc import Callable

import pytest

from cometmq.wire import headers as h


@pytest.mark.parametrize(
    ("header", "java_name"),
    [
        (h.UnregisterClientHeader, "UnregisterClientRequestHeader"),
        (h.ConsumerGroupHeader, "GetConsumerListByGroupRequestHeader"),
        (h.ProducerGroupHeader, "GetProducerConnectionListRequestHeader"),
        (h.RunningInfoHeader, "GetConsumerRunningInfoRequestHeader"),
        (h.ConsumeDirectlyHeader, "ConsumeMessageDirectlyResultRequestHeader"),
    ],
)
def test_fields_are_those_of_the_java_class(
    header: type[h.Header], java_name: str, differences: Callable[[type[h.Header], str], list[str]]
) -> None:
    assert differences(header, java_name) == []
