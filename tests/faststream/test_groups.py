"""Subscribers of one group share its consumer."""

import pytest

pytest.importorskip("faststream", reason="FastStream is not installed: it is in requirements.lock")

from faststream.exceptions import SetupError

from cometmq.client.handling.subscription import Subscription
from cometmq.errors import SettingsError
from cometmq.faststream.groups import Connecting, GroupConsumers, GroupOptions

NOWHERE = "127.0.0.1:1"


async def handle(_: object) -> None:
    pass


def consumers() -> GroupConsumers:
    return GroupConsumers(Connecting(NOWHERE))


def test_a_group_has_one_consumer_with_all_its_topics() -> None:
    ours = consumers()
    ours.subscribe("billing", GroupOptions(), Subscription("orders", handle))
    ours.subscribe("billing", GroupOptions(), Subscription("bills", handle))
    ours.subscribe("archive", GroupOptions(pop=True), Subscription("orders", handle))
    with pytest.raises(SettingsError, match="'orders' has a handler already"):
        ours.subscribe("billing", GroupOptions(), Subscription("orders", handle))
    ours.unsubscribe("billing", "orders")
    ours.subscribe("billing", GroupOptions(), Subscription("orders", handle))


def test_subscribers_of_a_group_that_do_not_agree_are_refused() -> None:
    ours = consumers()
    ours.subscribe("billing", GroupOptions(), Subscription("orders", handle))
    with pytest.raises(SetupError, match="'billing': its subscribers must agree in max_workers, pop"):
        ours.subscribe("billing", GroupOptions(max_workers=4, pop=True), Subscription("bills", handle))


def test_a_subscriber_without_a_group_is_refused_with_the_remedy() -> None:
    with pytest.raises(SetupError, match=r"'orders': name the consumer group: RocketMQBroker\(..., group="):
        consumers().subscribe("", GroupOptions(), Subscription("orders", handle))


async def test_what_has_stopped_can_be_subscribed_again() -> None:
    ours = consumers()
    ours.subscribe("billing", GroupOptions(), Subscription("orders", handle))
    await ours.stop()
    ours.unsubscribe("billing", "orders")  # nothing happens: it has stopped
    ours.subscribe("billing", GroupOptions(pop=True), Subscription("orders", handle))
    assert not ours.are_running


def test_a_poller_is_a_member_of_the_group() -> None:
    assert consumers().new_poller("billing", GroupOptions()).queues == []
