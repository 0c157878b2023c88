"""A program without asyncio and its tests."""

import pytest
from reminders import TOPIC, remind_later

from cometmq.errors import RemoteError
from cometmq.testing import EmbeddedBroker

HOUR_S = 3_600


def test_a_reminder_comes_after_two_hours(rocketmq: EmbeddedBroker) -> None:
    remind_later(rocketmq.name_server, "7")
    rocketmq.clock.advance(HOUR_S)
    assert rocketmq.messages(TOPIC) == []
    rocketmq.clock.advance(HOUR_S)
    assert [message.keys for message in rocketmq.messages(TOPIC)] == [("7",)]


def test_a_broker_that_is_busy_for_long_is_told(rocketmq: EmbeddedBroker) -> None:
    rocketmq.fail_next(100, topic=TOPIC)
    with pytest.raises(RemoteError):
        remind_later(rocketmq.name_server, "7")
