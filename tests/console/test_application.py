import re
from collections.abc import AsyncIterator

import pytest
from tests.console.conftest import Browser, browsing, text_of
from tests.fuzzed_broker import NAME, Mutations, fuzzed_broker, nonsense

from cometmq import errors
from cometmq.admin import groups
from cometmq.admin.topics import TopicAdmin
from cometmq.client import Producer, PullConsumer
from cometmq.console.application import PAGES, status_of
from cometmq.console.settings import ConsoleSettings
from cometmq.console.workload import Busy
from cometmq.message import Message
from cometmq.net.address import free_port
from cometmq.testing.embedded_broker import EmbeddedBroker
from cometmq.wire.bodies.group import GroupConfig
from cometmq.wire.codes import ResponseCode

SEEDS = 40
"""How often each page is asked for while a broker answers at random; each time otherwise."""


async def test_each_page_without_parts_is_shown_and_has_nothing_inline(browser: Browser) -> None:
    for path in PAGES:
        if "{" not in path:
            page = await browser.page(path)
            assert not re.search(r"<style|style=|<script(?![^>]+src=)|\son\w+=|javascript:", page.text), path
            for asset in re.findall(r'(?:src|href)="(/static[^"]+)"', page.text):
                await browser.page(asset)


async def test_a_page_that_is_not_there_says_so(browser: Browser) -> None:
    assert "there is no page /nowhere<" in (await browser.page("/nowhere", 404)).text.replace("</p>", "<")
    assert (await browser.page("/healthz")).text == "ok\n"


async def test_without_a_name_server_each_page_says_which_did_not_answer() -> None:
    address = f"127.0.0.1:{free_port()}"
    async with browsing(ConsoleSettings(address)) as browser:
        assert address in await browser.text("/topics", 504)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.NoRoute("x"), 404),
        (errors.RemoteError(ResponseCode.TOPIC_NOT_EXIST, "x"), 404),
        (errors.RemoteError(ResponseCode.NO_PERMISSION, "x"), 403),
        (errors.RemoteError(ResponseCode.SYSTEM_ERROR, "x"), 502),
        (errors.AccessError("x"), 403),
        (errors.SettingsError("x"), 400),
        (errors.FormatError("x"), 400),
        (errors.NetworkError("x"), 504),
        (errors.NoBroker("x"), 504),
        (errors.ProtocolError("x"), 502),
        (errors.UnreadableAnswer("10.0.0.1:10911", "x"), 502),
        (Busy("x"), 503),
    ],
)
def test_an_error_has_the_status_of_its_kind(error: errors.CometMQError, status: int) -> None:
    assert status_of(error) == status


@pytest.fixture
async def sound(broker: EmbeddedBroker) -> AsyncIterator[TopicAdmin]:
    """Fill the broker, which is sound, and return its administration."""
    broker.create_topic("orders", 1)
    async with TopicAdmin(broker.name_server) as admin:
        await groups.create(admin, GroupConfig("billing"))
    async with Producer(broker.name_server) as producer:
        await producer.send(Message("orders", b"x"))
    async with PullConsumer(broker.name_server, "billing") as reader:
        await reader.commit((await reader.queues("orders"))[0], 0)
    async with TopicAdmin(broker.name_server) as admin:
        yield admin


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/", "billing"),
        ("/topics", "orders"),
        ("/topics/orders", "billing"),
        ("/groups", "billing"),
        ("/groups/billing", "orders"),
        ("/replication", "embedded"),
        ("/producers", ""),
        ("/waiting", ""),
        ("/messages?topic=orders", ", the newest first"),
    ],
)
async def test_a_broker_that_answers_what_cannot_be_read_is_named_and_the_others_are_shown(
    sound: TopicAdmin, browser: Browser, path: str, shown: str
) -> None:
    async with fuzzed_broker(sound, nonsense, "orders"):
        text = await browser.text(path)
    assert shown in text and NAME in text
    assert "answers what cannot be read" in text


async def test_whatever_a_broker_answers_no_page_fails(sound: TopicAdmin, browser: Browser) -> None:
    paths = [path for path in PAGES if "{" not in path and path not in ("/send", "/tail", "/users")]
    paths += ["/topics/orders", "/groups/billing?owners=1", "/messages?topic=orders", "/dead-letters/billing"]
    async with fuzzed_broker(sound, nonsense, "orders") as fuzzed:
        for seed in range(SEEDS):
            fuzzed.change = Mutations(seed)
            for path in paths:
                answer = await browser.client.get(path)
                assert answer.status_code in (200, 404), (seed, path, text_of(answer))
                if path in ("/", "/topics", "/groups", "/replication"):
                    assert (
                        answer.status_code == 200 and "embedded" in answer.text
                    ) or "orders" in answer.text
