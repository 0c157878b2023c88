from tests.console.conftest import Browser

from cometmq.client import Consumer, PullConsumer, Start
from cometmq.message import Message
from cometmq.testing.embedded_broker import EmbeddedBroker


def consumer(broker: EmbeddedBroker, tags: str) -> Consumer:
    made = Consumer(broker.name_server, "billing", start=Start.FIRST)
    made.subscribe("orders", lambda _: None, tags=tags)
    return made


async def commit(broker: EmbeddedBroker, group: str, topic: str, offset: int) -> None:
    async with PullConsumer(broker.name_server, group) as reader:
        await reader.commit((await reader.queues(topic))[0], offset)


async def test_a_group_has_its_lag_members_and_contradictions(
    broker: EmbeddedBroker, browser: Browser
) -> None:
    broker.send(Message("orders", b"x", tags="paid"))
    await commit(broker, "billing", "orders", 0)
    async with consumer(broker, "paid"), consumer(broker, "paid || open"):
        listed = await browser.text("/groups")
        assert "billing divided 2" in listed
        text = await browser.text("/groups/billing")
        assert "Members subscribe differently to orders , so each misses messages" in text
        assert "open || paid : " in text and "PYTHON" in text and "Members 2" in text
        with_owners = await browser.text("/groups/billing?owners=1")
        assert "Last handled was stored Member" in with_owners
    assert "billing offline" in await browser.text("/groups")


async def test_a_group_without_members_shows_what_it_committed(
    broker: EmbeddedBroker, browser: Browser
) -> None:
    broker.send(Message("stock", b"x"), queue_id=0)
    await commit(broker, "warehouse", "stock", 5)
    text = await browser.text("/groups/warehouse")
    assert "stock embedded 0 1 5 ahead by 4" in text and "No member is connected" in text
    assert "warehouse offline 0 0 stock" in await browser.text("/groups?find=ware&sort=dead")


async def test_a_group_that_is_not_there_and_an_order_that_is_not_there_are_told(browser: Browser) -> None:
    assert "no group 'billings'" in await browser.text("/groups/billings", 404)
    assert "give one of name, lag" in await browser.text("/groups?sort=x", 400)
