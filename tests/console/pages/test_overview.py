from tests.console.conftest import Browser
from tests.kit.brokers import register_a_broker_that_is_gone

from cometmq.admin.topics import TopicAdmin
from cometmq.client import PullConsumer
from cometmq.message import Message
from cometmq.testing.embedded_broker import EmbeddedBroker


async def test_brokers_and_the_groups_that_lag_most_are_shown(
    broker: EmbeddedBroker, browser: Browser
) -> None:
    assert "No group is behind" in await browser.text("/")
    for number in range(3):
        broker.send(Message("orders", str(number).encode()), queue_id=0)
    async with PullConsumer(broker.name_server, "billing") as reader:
        await reader.commit((await reader.queues("orders"))[0], 1)
    text = await browser.text("/")
    assert "Lag of all groups 2 messages" in text
    assert "billing 2 offline orders 2" in text
    assert "embedded 127.0.0.1:" in text


async def test_a_broker_that_does_not_answer_is_shown_as_such_beside_the_others(
    broker: EmbeddedBroker, browser: Browser
) -> None:
    async with TopicAdmin(broker.name_server) as admin:
        gone = await register_a_broker_that_is_gone(admin)
        text = await browser.text("/")
    assert f"broker-gone at {gone}: " in text and "What it has is missing here" in text
    assert "broker-gone no answer" in text and "1 not answering" in text
    assert "embedded 127.0.0.1:" in text and "billing 2" in text
