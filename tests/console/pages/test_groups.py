from tests.console.conftest import Browser
from tests.consuming import hanging

from cometmq.admin import groups
from cometmq.admin.topics import TopicAdmin
from cometmq.client import Consumer, PullConsumer, Start
from cometmq.message import Message
from cometmq.testing.embedded_broker import EmbeddedBroker
from cometmq.wire.bodies.group import GroupConfig


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


async def test_a_group_that_hangs_before_its_first_commit_lags_and_says_so(
    broker: EmbeddedBroker, browser: Browser
) -> None:
    broker.send(Message("parked", b"x"), queue_id=0)
    async with hanging(broker.name_server, "stuck", "parked"):
        text = await browser.text("/groups/stuck")
        assert "Lag 1 messages" in text and "Nothing committed yet: lag counts from where" in text
        assert "parked embedded 0 1 – 1 1 0" in text
        assert "stuck nothing committed yet 1 1" in await browser.text("/groups")
        assert "stuck nothing committed yet 1 1" in await browser.text("/")


async def test_no_lag_is_made_up_for_a_group_of_which_nothing_is_known(
    broker: EmbeddedBroker, browser: Browser
) -> None:
    async with TopicAdmin(broker.name_server) as admin:
        await groups.create(admin, GroupConfig(group="idle"))
    text = await browser.text("/groups/idle")
    assert "Lag – Deliveries" in text
    assert "Nothing committed yet, and it is not known where the group begins" in text


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
