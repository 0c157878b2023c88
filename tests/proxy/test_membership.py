import pytest
from tests.kit.grpc_clients import members
from tests.proxy.conftest import Front

from cometmq.proxy import membership as membership_module
from cometmq.proxy.membership import ProxyMembership
from cometmq.wire.bodies.heartbeat import SubscriptionData


async def test_a_group_is_joined_once_and_left(front: Front) -> None:
    await front.create_topic("T")
    membership = ProxyMembership(front.proxy._brokers)
    for _ in range(2):
        await membership.join("G", [SubscriptionData("T")])
    assert len(await members(front, "G")) == 1
    await membership.join("G", [SubscriptionData("T", "red")])
    await membership.close()
    assert await members(front, "G") == []


async def test_a_topic_that_does_not_exist_yet_is_no_failure(front: Front) -> None:
    membership = ProxyMembership(front.proxy._brokers)
    await membership.join("G", [SubscriptionData("no")])
    await membership.leave("G")
    await membership.leave("G")


async def test_when_a_group_has_too_many_subscriptions_those_before_are_forgotten(
    front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(membership_module, "SUBSCRIPTIONS_MAX", 2)
    membership = ProxyMembership(front.proxy._brokers)
    for topic in "abc":
        await membership.join("G", [SubscriptionData(topic)])
    assert [data.topic for data in membership.subscriptions("G")] == ["c"]
    await membership.close()
