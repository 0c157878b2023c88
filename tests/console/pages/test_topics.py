import pytest
from tests.console.conftest import Browser

from cometmq.client import PullConsumer
from cometmq.console.pages import topics
from cometmq.message import Message
from cometmq.testing.embedded_broker import EmbeddedBroker


async def test_the_list_has_messages_spans_groups_and_lags(broker: EmbeddedBroker, browser: Browser) -> None:
    broker.create_topic("Quiet", 2)
    for number in range(3):
        sent = broker.send(Message("Loud", str(number).encode()), queue_id=0)
    async with PullConsumer(broker.name_server, "billing") as reader:
        await reader.commit((await reader.queues("Loud"))[0], 1)
    page = await browser.page("/topics")
    assert "TBW102" not in page.text and "<main" in page.text
    text = await browser.text("/topics?sort=lag")
    assert text.index("Loud") < text.index("Quiet")
    assert "2 billing 2" in text and "Quiet 2 0 0 – – 0 none" in text
    assert sent.store_time
    assert "TBW102" in await browser.text("/topics?system=1")
    assert "No topic whose name contains “nowhere”" in await browser.text("/topics?find=nowhere")


async def test_a_long_list_has_pages(
    broker: EmbeddedBroker, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("page-a", "page-b", "page-c"):
        broker.create_topic(name, 1)
    monkeypatch.setattr(topics, "PAGE", 2)
    first, second = await browser.text("/topics?find=PAGE-"), await browser.text("/topics?find=page-&page=2")
    assert "page-a" in first and "page-c" not in first and "1 to 2 of 3 Next" in first
    assert "page-c" in second and "page-a" not in second and "Previous 3 to 3 of 3" in second


async def test_a_topic_has_queues_groups_and_settings(broker: EmbeddedBroker, browser: Browser) -> None:
    broker.create_topic("One", 2)
    broker.send(Message("One", b"x"), queue_id=1)
    async with PullConsumer(broker.name_server, "reader") as reader:
        for queue in await reader.queues("One"):
            await reader.commit(queue, 0)
    text = await browser.text("/topics/One")
    assert "Messages 1 Queues 2" in text
    assert "reader 1 0" in text, "the group and its lag"
    assert "embedded 0 0 0 0 – embedded 1 0 1 1 2" in text, "the queues, and the time of the last message"
    assert "2 2 read and write (6) no" in text


@pytest.mark.parametrize(
    ("path", "status", "told"),
    [
        ("/topics/Nowhere", 404, "no route for topic 'Nowhere'"),
        ("/topics?sort=colour", 400, "sort 'colour': give one of name, rate"),
        ("/topics?page=0", 400, "page '0': write a whole number from 1 to 1000000"),
        ("/topics/a%20b", 400, "a b"),
    ],
)
async def test_what_cannot_be_shown_is_told_with_the_remedy(
    browser: Browser, path: str, status: int, told: str
) -> None:
    assert told in await browser.text(path, status)
