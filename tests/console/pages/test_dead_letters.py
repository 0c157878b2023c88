import re

from tests.console.conftest import Browser, text_of

from cometmq.admin import messages
from cometmq.admin.topics import TopicAdmin
from cometmq.client import Producer
from cometmq.format.layout import DLQ_PREFIX, RETRY_PREFIX
from cometmq.message import Message, StoredMessage
from cometmq.testing.embedded_broker import EmbeddedBroker


async def give_up(
    broker: EmbeddedBroker, group: str, count: int, topic: str = "orders"
) -> list[StoredMessage]:
    """Store dead letters of a group, as if it had given up messages of a topic; return such messages."""
    broker.create_topic(DLQ_PREFIX + group, 1)
    broker.create_topic("orders", 1)
    found: list[StoredMessage] = []
    async with TopicAdmin(broker.name_server) as admin, Producer(broker.name_server) as producer:
        for number in range(count):
            sent = await producer.send(Message("orders", str(number).encode(), keys=(f"k{number}",)))
            found += await messages.by_id(admin, sent.offset_id)
            await messages.send_again(admin, found[-1], DLQ_PREFIX + group, RETRY_TOPIC=topic)
    return found


async def test_groups_with_dead_letters_lead_to_them(broker: EmbeddedBroker, browser: Browser) -> None:
    assert "No group has given up a message" in await browser.text("/dead-letters")
    await give_up(broker, "billing", 2)
    assert "billing 2 " in await browser.text("/dead-letters")
    text = await browser.text("/dead-letters/billing")
    assert "orders – k0 0 0" in text and "orders – k1 0 1" in text
    assert "k1" not in await browser.text("/dead-letters/billing?limit=1")
    assert "No dead letter in this time" in await browser.text("/dead-letters/billing?time=..2020-01-01")
    assert "No dead letter." in await browser.text("/dead-letters/others")


async def test_the_ticked_letters_are_sent_to_their_group_again(
    broker: EmbeddedBroker, browser: Browser
) -> None:
    await give_up(broker, "shop", 2)
    broker.create_topic(RETRY_PREFIX + "shop", 1)
    page = await browser.page("/dead-letters/shop")
    first, _ = re.findall(r'name="(letter\.[0-9A-F]+)"', page.text)
    sent = await browser.send(page, "/dead-letters/shop/resend", **{first: "1"})
    assert "1 sent again" in await browser.text(sent.headers["location"])
    (again,) = broker.messages(RETRY_PREFIX + "shop")
    assert again.body == b"0" and again.properties["RETRY_TOPIC"] == "orders"
    before = len(broker.messages("orders"))
    await browser.send(page, "/dead-letters/shop/resend", to_topic="1", **{first: "1"})
    assert len(broker.messages("orders")) == before + 1
    none = await browser.send(page, "/dead-letters/shop/resend")
    assert none.status_code == 400 and "tick the dead letters" in text_of(none)


async def test_when_a_letter_fails_the_page_says_what_was_sent_and_what_remains(
    broker: EmbeddedBroker, browser: Browser
) -> None:
    for topic in ("orders", "gone", "orders"):
        await give_up(broker, "torn", 1, topic)
    page = await browser.page("/dead-letters/torn")
    ticks = re.findall(r'name="(letter\.[0-9A-F]+)"', page.text)
    sent = await browser.send(page, "/dead-letters/torn/resend", to_topic="1", **dict.fromkeys(ticks, "1"))
    text = text_of(sent)
    _, second, third = (tick.removeprefix("letter.") for tick in ticks)
    assert sent.status_code == 502 and f"1 of 3 dead letters were sent again, then {second} failed" in text
    assert f"choose only what remains the next time: {second}, {third}" in text
