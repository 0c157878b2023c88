"""Routers."""

import pytest

pytest.importorskip("faststream", reason="FastStream is not installed: it is in requirements.lock")

from faststream import AckPolicy

from cometmq.faststream import (
    RocketMQBroker,
    RocketMQRoute,
    RocketMQRouter,
    RoutePublisher,
    TestRocketMQBroker,
)


async def test_a_router_s_prefix_is_put_before_its_topics_and_its_broker_s_group_counts() -> None:
    router = RocketMQRouter(prefix="eu_", ack_policy=AckPolicy.REJECT_ON_ERROR)

    @router.subscriber("orders")
    async def handle(body: str) -> None:
        pass

    broker = RocketMQBroker("127.0.0.1:1", group="billing", routers=[router], logger=None)
    [subscriber] = broker.subscribers
    assert subscriber.ack_policy is AckPolicy.REJECT_ON_ERROR
    assert subscriber.get_log_context(None)["group"] == "billing"
    async with TestRocketMQBroker(broker):
        await broker.publish("an order", "orders")
        handle.mock.assert_not_called()
        await broker.publish("an order", "eu_orders")
        handle.mock.assert_called_once_with("an order")


async def test_handlers_can_be_declared_as_a_list() -> None:
    async def bill(body: str) -> str:
        return f"bill for {body}"

    route = RocketMQRoute(bill, "orders", tags="paid", publishers=[RoutePublisher("bills", tags="new")])
    broker = RocketMQBroker("127.0.0.1:1", group="billing", logger=None)
    broker.include_router(RocketMQRouter(handlers=[route]))
    [publisher] = broker.publishers
    async with TestRocketMQBroker(broker):
        await broker.publish("an order", "orders", tags="paid")
        publisher.mock.assert_called_once_with("bill for an order")


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(TypeError, match="a router has no option 'group'"):
        RocketMQRouter(group="billing")  # type: ignore[call-arg] # that is the fault
