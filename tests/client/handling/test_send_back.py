"""Not every group can be made for who sends back; the rest is in ``test_send_back_end_to_end``."""

from pathlib import Path

import pytest
from tests.client.pops import record
from tests.shop import QUEUE, shop

from cometmq.client.handling.send_back import SendBack, retry_delay_ms
from cometmq.errors import NoRoute
from cometmq.format.stored import message_as_stored
from cometmq.io.clock import SystemClock

TOO_LONG = "strangers" * 28
"""A name that leaves no room for that of the group's retry topic."""


async def test_what_nobody_takes_is_raised(tmp_path: Path) -> None:
    async with shop(tmp_path) as here:
        await here.send(b"0")
        (message,) = (await here.requests.pull(QUEUE, 0)).messages
        stranger = SendBack(here.connections, here.routes, TOO_LONG, 2, SystemClock())
        with pytest.raises(NoRoute):
            await stranger.send(QUEUE, message, 0)


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
