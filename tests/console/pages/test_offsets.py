import pytest
from tests.console.conftest import Browser, browsing, text_of

from cometmq.client import PullConsumer
from cometmq.console.settings import ConsoleSettings
from cometmq.message import Message, MessageQueue
from cometmq.testing.embedded_broker import EmbeddedBroker

QUEUE = MessageQueue("orders", "embedded", 0)


@pytest.fixture(scope="module", autouse=True)
def orders(broker: EmbeddedBroker) -> None:
    for number in range(5):
        broker.send(Message("orders", str(number).encode()), queue_id=0)


async def committed(broker: EmbeddedBroker, group: str, value: int | None = None) -> int | None:
    """Commit an offset, or not; return the one that is committed."""
    async with PullConsumer(broker.name_server, group) as reader:
        if value is not None:
            await reader.commit(QUEUE, value)
        return await reader.committed(QUEUE)


async def test_a_reset_is_shown_with_its_command_before_it_is_done(
    broker: EmbeddedBroker, browser: Browser
) -> None:
    await committed(broker, "billing", 3)
    query = "topic=orders&to=latest&queue=embedded:0"
    page = await browser.page(f"/groups/billing/reset?{query}")
    text = text_of(page)
    assert "embedded 0 3 5 skips 2" in text
    command = "cometmq offset reset billing orders --to latest --queue embedded:0 --namesrv "
    assert command + broker.name_server in text
    assert await committed(broker, "billing") == 3, "nothing has changed"
    done = await browser.send(page, "/groups/billing/reset", topic="orders", to="latest", queue="embedded:0")
    assert done.status_code == 303
    assert "Its offsets in orders were reset" in await browser.text(done.headers["location"])
    assert await committed(broker, "billing") == 5


async def test_an_offset_repeats_messages(broker: EmbeddedBroker, browser: Browser) -> None:
    await committed(broker, "backwards", 4)
    page = await browser.page("/groups/backwards/reset?topic=orders&offset=1&queue=embedded:0")
    assert "repeats 3" in text_of(page) and "--to-offset 1" in text_of(page)
    await browser.send(page, "/groups/backwards/reset", topic="orders", offset="1", queue="embedded:0")
    assert await committed(broker, "backwards") == 1


@pytest.mark.parametrize(
    ("query", "status", "told"),
    [
        ("topic=orders&to=tomorrow", 400, "to: 'tomorrow' is not a time"),
        ("topic=orders&to=latest&offset=1", 400, "give either a place"),
        ("topic=orders&to=latest&queue=0", 400, "queue '0': write it as BROKER:ID"),
        ("topic=orders&to=latest&queue=b:" + "9" * 5_000, 400, "write it as BROKER:ID"),
        ("topic=orders&offset=9&queue=embedded:0", 400, "has no offset 9: it has 0 to 5"),
        ("topic=nowhere&to=latest", 404, "no route for topic 'nowhere'"),
    ],
)
async def test_what_cannot_be_is_told(browser: Browser, query: str, status: int, told: str) -> None:
    assert told in await browser.text(f"/groups/billing/reset?{query}", status)


async def test_a_form_of_another_page_or_site_changes_nothing(
    broker: EmbeddedBroker, browser: Browser
) -> None:
    await committed(broker, "protected", 2)
    fields = {"topic": "orders", "to": "latest", "form_token": "guess"}
    refused = await browser.client.post("/groups/protected/reset", data=fields)
    assert refused.status_code == 403 and "open its page again" in text_of(refused)
    page = await browser.page("/groups/protected/reset?topic=orders&to=latest")
    headers = {"sec-fetch-site": "cross-site"}
    token = page.text.partition('name="form_token" value="')[2].partition('"')[0]
    fields["form_token"] = token
    other = await browser.client.post("/groups/protected/reset", data=fields, headers=headers)
    assert other.status_code == 403 and "another site" in text_of(other)
    assert await committed(broker, "protected") == 2


async def test_a_console_that_is_read_only_plans_and_refuses(broker: EmbeddedBroker) -> None:
    await committed(broker, "planned", 2)
    async with browsing(ConsoleSettings(broker.name_server, read_only=True)) as browser:
        page = await browser.page("/groups/planned/reset?topic=orders&to=latest")
        assert "skips 3" in text_of(page) and "<form method" not in page.text
        token = await form_token_of(browser)
        refused = await browser.client.post(
            "/groups/planned/reset", data={"form_token": token, "topic": "orders", "to": "latest"}
        )
        assert refused.status_code == 403 and "read-only" in text_of(refused)
    assert await committed(broker, "planned") == 2


async def form_token_of(browser: Browser) -> str:
    """Return the token, which pages that are read-only do not show."""
    site = browser.client._transport.app.routes[0].endpoint.args[0]  # type: ignore[attr-defined]  # httpx hides it
    visitor = await site.visitors.find("")
    token: str = visitor.form_token
    return token
