"""What is declared with a broker, and how AsyncAPI shows it."""

from typing import Any

import pytest

pytest.importorskip("faststream", reason="FastStream is not installed: it is in requirements.lock")

from faststream.specification import AsyncAPI
from pydantic import BaseModel

from cometmq.faststream import RocketMQBroker, RocketMQRouter


class Order(BaseModel):
    number: int


def test_asyncapi_shows_topics_payloads_and_the_name_server() -> None:
    broker = RocketMQBroker("mq.example:9876", group="billing", description="the shop's", logger=None)
    router = RocketMQRouter(prefix="eu_")

    @router.subscriber("orders", description="orders to bill")
    @router.publisher("bills", title="Bills")
    async def bill(order: Order) -> Order:
        return order

    broker.include_router(router)
    document: dict[str, Any] = AsyncAPI(broker, title="Billing").to_specification().to_jsonable()
    [server] = document["servers"].values()
    assert (server["host"], server["protocol"]) == ("mq.example:9876", "rocketmq")
    channels = {channel["address"]: channel for channel in document["channels"].values()}
    assert channels.keys() == {"eu_orders", "eu_bills"}
    assert channels["eu_orders"]["description"] == "orders to bill"
    assert document["components"]["schemas"]["Order"]["properties"]["number"]["type"] == "integer"
    assert {one["action"] for one in document["operations"].values()} == {"receive", "send"}


def test_what_shall_not_be_shown_is_not() -> None:
    broker = RocketMQBroker(group="billing", logger=None)
    broker.publisher("secrets", include_in_schema=False)
    assert AsyncAPI(broker).to_specification().to_jsonable()["channels"] == {}


def test_an_unknown_option_is_refused() -> None:
    broker = RocketMQBroker(group="billing", logger=None)
    with pytest.raises(TypeError, match="a subscriber has no option 'tag'"):
        broker.subscriber("orders", tag="paid")  # type: ignore[call-arg] # that is the fault
    with pytest.raises(TypeError, match="a publisher has no option 'key'"):
        broker.publisher("orders", key="42")  # type: ignore[call-arg] # that is the fault


def test_a_router_of_another_broker_is_refused() -> None:
    with pytest.raises(TypeError, match="object is not a router of RocketMQ"):
        RocketMQBroker(logger=None).include_router(object())  # type: ignore[arg-type] # that is the fault


def test_tags_beside_sql_are_refused_where_they_are_declared() -> None:
    with pytest.raises(ValueError, match="tags 'paid' and sql"):
        RocketMQBroker("127.0.0.1:1").subscriber("orders", tags="paid", sql="size > 3")
