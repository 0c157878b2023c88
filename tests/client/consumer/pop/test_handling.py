"""How long messages are hidden whose handler raised; the rest is in ``test_consumption``."""

import pytest
from tests.client.pops import record

from cometmq.client.consumer.pop.handling import retry_delay_ms
from cometmq.format.stored import message_as_stored

RETRIES_S = [10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200]
"""Of RocketMQ's clients that pop, by how often a message was delivered before."""


def test_a_message_is_hidden_longer_with_each_delivery() -> None:
    messages = [message_as_stored(record(0, b"x", reconsume_times=times)) for times in range(18)]
    assert [retry_delay_ms(one, 0) // 1000 for one in messages] == [*RETRIES_S, 7200, 7200]


@pytest.mark.parametrize(
    ("level", "delay_ms"), [(1, 1_000), (2, 5_000), (5, 60_000), (18, 7_200_000), (19, 7_200_000)]
)
def test_a_level_is_the_same_as_without_pops(level: int, delay_ms: int) -> None:
    assert retry_delay_ms(message_as_stored(record(0, b"x", reconsume_times=9)), level) == delay_ms
