import pytest
from tests.console.conftest import FORM, Browser, browsing, text_of
from tests.consuming import hanging

from cometmq.admin import groups
from cometmq.admin.topics import TopicAdmin
from cometmq.client import Consumer, PullConsumer, Start
from cometmq.console.observing import Observations
from cometmq.console.pages.groups import LINES_MAX
from cometmq.console.settings import ConsoleSettings
from cometmq.message import Message, MessageQueue
from cometmq.testing.embedded_broker import EmbeddedBroker
from cometmq.wire.bodies.group import GroupConfig

QUEUE = MessageQueue("orders", "embedded", 0)


@pytest.fixture(scope="module", autouse=True)
def orders(broker: EmbeddedBroker) -> None:
    for number in range(5):
        broker.send(Message("orders", str(number).encode()), queue_id=0)


def consumer(broker: EmbeddedBroker, tags: str) -> Consumer:
    made = Consumer(broker.name_server, "billing", start=Start.FIRST)
    made.subscribe("bills", lambda _: None, tags=tags)
    return made


async def commit(broker: EmbeddedBroker, group: str, topic: str, offset: int) -> None:
    async with PullConsumer(broker.name_server, group) as reader:
        await reader.commit((await reader.queues(topic))[0], offset)


async def test_a_group_has_its_lag_members_and_contradictions(
    broker: EmbeddedBroker, browser: Browser
) -> None:
    broker.send(Message("bills", b"x", tags="paid"))
    await commit(broker, "billing", "bills", 0)
    async with consumer(broker, "paid"), consumer(broker, "paid || open"):
        listed = await browser.text("/groups")
        assert "billing divided 2" in listed
        text = await browser.text("/groups/billing")
        assert "Members subscribe differently to bills , so each misses messages" in text
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


def observed(queues: int) -> Observations:
    found = Observations()
    for time_ms in (1_000, 2_000):
        found.lags.add(
            time_ms, {"billing": {MessageQueue("orders", "a", number): number for number in range(queues)}}
        )
    return found


async def test_a_chart_has_the_worst_queues_and_the_total(broker: EmbeddedBroker) -> None:
    async with browsing(ConsoleSettings(broker.name_server), observed(LINES_MAX + 2)) as browser:
        found = (await browser.page("/groups/billing/lags")).json()
        assert found["times"] == [1_000, 2_000] and found["total"] == [36, 36]
        assert found["queues"][0] == {"name": "orders a:8", "lags": [8, 8]}
        assert len(found["queues"]) == LINES_MAX and found["queue_count"] == LINES_MAX + 2
        nobody = (await browser.page("/groups/nobody/lags")).json()
        assert nobody["total"] == [None, None] and nobody["queues"] == []


async def test_whoever_may_not_see_the_group_does_not_see_how_it_was(guarded: EmbeddedBroker) -> None:
    async with browsing(ConsoleSettings(guarded.name_server, login=True), observed(1)) as browser:
        await browser.page("/groups/billing/lags", 303)
        await browser.client.post("/sign-in", data=FORM)
        found = await browser.page("/groups/billing/lags")
        assert found.json()["total"] == [0, 0]
        page = await browser.page("/users")
        await browser.send(page, "/users", name="guest", password="guest-secret")
        await browser.send(page, "/sign-out")
        await browser.client.post("/sign-in", data={"user": "guest", "secret": "guest-secret"})
        await browser.page("/groups/billing/lags", 403)


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
