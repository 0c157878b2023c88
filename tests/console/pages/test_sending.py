import pytest
from tests.console.conftest import Browser, browsing, text_of

from cometmq.console.pages.sending import message_of
from cometmq.console.settings import ConsoleSettings
from cometmq.errors import SettingsError
from cometmq.testing.embedded_broker import EmbeddedBroker


async def test_a_message_is_sent_and_shown(broker: EmbeddedBroker, browser: Browser) -> None:
    broker.create_topic("orders", 1)
    page = await browser.page("/send?topic=orders")
    fields = {"topic": "orders", "body": "größe", "tags": "paid", "keys": "k1 k2"}
    sent = await browser.send(page, "/send", properties="region=eu\r\n\r\nshop = a=b", **fields)
    assert sent.status_code == 303
    text = await browser.text(sent.headers["location"])
    assert "It is stored" in text and "größe" in text and "k1 k2" in text
    (stored,) = broker.messages("orders")
    assert stored.body == "größe".encode() and stored.tags == "paid" and stored.keys == ("k1", "k2")
    assert stored.properties["region"] == "eu" and stored.properties["shop"] == "a=b"


async def test_a_delayed_message_waits(broker: EmbeddedBroker, browser: Browser) -> None:
    broker.create_topic("later", 1)
    sent = await browser.send(await browser.page("/send"), "/send", topic="later", body="x", delay="3600")
    assert "timed later" in await browser.text(sent.headers["location"])


async def test_a_slip_of_the_pen_creates_no_topic(broker: EmbeddedBroker, browser: Browser) -> None:
    broker.create_topic("payments", 1)
    sent = await browser.send(await browser.page("/send"), "/send", topic="payment", body="x")
    assert sent.status_code == 404 and "nearest 'payments'" in text_of(sent)
    assert "payment " not in await browser.text("/topics?find=payment")


def test_fields_that_are_no_message_are_refused() -> None:
    with pytest.raises(SettingsError, match="give the topic"):
        message_of({"body": "x"})
    with pytest.raises(SettingsError, match="property 'region': write it as NAME=VALUE"):
        message_of({"topic": "T", "properties": "region"})
    with pytest.raises(SettingsError, match="delay '1h': write a whole number"):
        message_of({"topic": "T", "delay": "1h"})


async def test_a_name_that_is_rocketmqs_own_is_refused(broker: EmbeddedBroker, browser: Browser) -> None:
    broker.create_topic("names", 1)
    page = await browser.page("/send")
    refused = await browser.send(page, "/send", topic="names", body="x", properties="DELAY=1")
    assert refused.status_code == 400 and "RocketMQ's own: choose another name" in text_of(refused)


async def test_a_console_that_is_read_only_has_no_form(broker: EmbeddedBroker) -> None:
    async with browsing(ConsoleSettings(broker.name_server, read_only=True)) as browser:
        page = await browser.page("/send")
        assert "read-only" in text_of(page) and "<textarea" not in page.text
