"""What a lite pull consumer refuses; what it does is in ``test_lite_pull_end_to_end``."""

import asyncio

import pytest

from cometmq.client import LitePullConsumer
from cometmq.errors import SettingsError


def test_without_anything_to_read_a_poll_is_refused() -> None:
    with pytest.raises(SettingsError, match="nothing is subscribed"):
        asyncio.run(LitePullConsumer("127.0.0.1:1", "readers").poll(0))
