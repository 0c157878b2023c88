from collections.abc import Callable

import pytest

from cometmq.wire.headers.client import (
    ConsumeDirectlyHeader,
    ConsumerGroupHeader,
    ProducerGroupHeader,
    RunningInfoHeader,
    UnregisterClientHeader,
)
from cometmq.wire.headers.fields import Header


@pytest.mark.parametrize(
    ("header", "java_name"),
    [
        (UnregisterClientHeader, "UnregisterClientRequestHeader"),
        (ConsumerGroupHeader, "GetConsumerListByGroupRequestHeader"),
        (ProducerGroupHeader, "GetProducerConnectionListRequestHeader"),
        (RunningInfoHeader, "GetConsumerRunningInfoRequestHeader"),
        (ConsumeDirectlyHeader, "ConsumeMessageDirectlyResultRequestHeader"),
    ],
)
def test_fields_are_those_of_the_java_class(
    header: type[Header], java_name: str, differences: Callable[[type[Header], str], list[str]]
) -> None:
    assert differences(header, java_name) == []
