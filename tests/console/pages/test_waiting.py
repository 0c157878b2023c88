from tests.console.conftest import Browser
from tests.kit.brokers import register_a_broker_that_is_gone

from cometmq.admin.topics import TopicAdmin
from cometmq.client import Producer, TransactionProducer, TransactionState
from cometmq.message import Message
from cometmq.testing.embedded_broker import EmbeddedBroker


async def test_what_waits_is_shown_with_when_it_is_due(broker: EmbeddedBroker, browser: Browser) -> None:
    assert "Nothing waits" in await browser.text("/waiting")
    broker.create_topic("later", 1)
    async with Producer(broker.name_server) as producer:
        await producer.send(Message("later", b"x", delay_level=5))
    text = await browser.text("/waiting")
    assert "delayed later – 1 0 1 0 0 0 0" in text or "delayed later – 1 0 0 1 0 0 0" in text
    assert "Nothing waits" in await browser.text("/waiting?topic=other")


async def test_producers_are_shown_while_they_run(broker: EmbeddedBroker, browser: Browser) -> None:
    assert "No producer sends heartbeats" in await browser.text("/producers")
    broker.create_topic("paid", 1)
    async with TransactionProducer(
        broker.name_server, "shop", check=lambda _: TransactionState.COMMIT
    ) as producer:
        await producer.send(Message("paid", b"x"))
        text = await browser.text("/producers")
    assert "Producers 1" in text and "shop" in text and "embedded 127.0.0.1:" in text


async def test_a_broker_that_is_gone_hides_nothing_of_the_others(
    broker: EmbeddedBroker, browser: Browser
) -> None:
    async with TopicAdmin(broker.name_server) as admin:
        gone = await register_a_broker_that_is_gone(admin)
        text = await browser.text("/waiting")
    assert f"broker-gone at {gone}" in text and "delayed later" in text
