"""All clients that send heartbeats have an argument for their interval, and pass it on."""

from collections.abc import Callable
from typing import Any

import pytest

from cometmq import blocking, client
from cometmq.errors import IllegalArgument
from cometmq.faststream.broker import RocketMQBroker
from cometmq.faststream.groups import GroupOptions

HERE = "127.0.0.1:9876"
CONSUMERS = ("Consumer", "LitePullConsumer", "SimpleConsumer")
PRODUCERS: dict[str, dict[str, Any]] = {"Producer": {}, "TransactionProducer": {"check": lambda _: None}}


def interval_of(consumer: Any) -> int:
    settings = consumer._settings
    return int(getattr(settings, "member", settings).heartbeat_interval_ms)


@pytest.mark.parametrize("name", CONSUMERS)
def test_consumers_have_it(name: str) -> None:
    assert interval_of(getattr(client, name)(HERE, "g")) == 30_000
    assert interval_of(getattr(client, name)(HERE, "g", heartbeat_interval_ms=700)) == 700
    assert interval_of(getattr(blocking, name)(HERE, "g", heartbeat_interval_ms=700)._client) == 700
    with pytest.raises(IllegalArgument, match="heartbeat_interval_ms 99: give an int of at least 100"):
        getattr(client, name)(HERE, "g", heartbeat_interval_ms=99)


@pytest.mark.parametrize("name", PRODUCERS)
async def test_producers_have_it(name: str) -> None:
    options = PRODUCERS[name] | {"heartbeat_interval_ms": 700}
    async with getattr(client, name)(HERE, "g", **options) as producer:
        assert producer._presence._interval_s == 0.7
    assert getattr(blocking, name)(HERE, "g", **options)._client._heartbeat_interval_ms == 700
    with pytest.raises(IllegalArgument, match="heartbeat_interval_ms 99: give an int of at least 100"):
        getattr(client, name)(HERE, "g", **PRODUCERS[name], heartbeat_interval_ms=99)


@pytest.mark.parametrize(
    "new", [lambda groups: groups._new_consumer, lambda groups: groups.new_poller], ids=["handler", "poller"]
)
def test_faststream_has_it(new: Callable[[Any], Callable[..., Any]]) -> None:
    broker = RocketMQBroker(HERE, heartbeat_interval=0.7)
    assert broker._connection_kwargs["heartbeat_interval_ms"] == 700
    groups = broker.config.broker_config.consumers
    assert interval_of(new(groups)("g", GroupOptions())) == 700
