from tests.console.conftest import FORM, browsing

from cometmq.console.observing import Observations
from cometmq.console.pages.lags import LINES_MAX
from cometmq.console.settings import ConsoleSettings
from cometmq.message import MessageQueue
from cometmq.testing.embedded_broker import EmbeddedBroker


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
