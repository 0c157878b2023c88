"""Not every group can be made for who sends back; the rest is in ``test_send_back_end_to_end``."""

from pathlib import Path

import pytest
from tests.shop import QUEUE, shop

from cometmq.client.consumer.send_back import SendBack
from cometmq.errors import NoRoute
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
