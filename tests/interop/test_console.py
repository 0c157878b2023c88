"""Each view of the console shows what a broker has, and says what it does not answer: never by a 500."""

from typing import Final

import pytest
from tests.campaigns.pages.console_tour.contents import HANDLED, LETTERS, living
from tests.console.conftest import Browser, browsing, text_of
from tests.interop import peers

from cometmq.console.observing import Observations, observe, observing_cluster
from cometmq.console.settings import ConsoleSettings

pytestmark = pytest.mark.interop

VIEWS: Final = {
    "/": ("Brokers 1", "Worst lags"),
    "/topics?find=orders": ("orders 4 ", "warehouse"),
    "/topics/orders": ("Queues 4", "warehouse", "read and write"),
    "/groups?find=ing": ("billing",),
    "/groups/billing": ("Members 2", "PYTHON", "subscribe differently"),
    "/groups/warehouse": ("No member is connected",),
    "/groups/warehouse/reset?topic=orders&to=latest": ("skips", "cometmq offset reset warehouse orders"),
    "/messages?topic=orders&limit=5": ("5 messages, the newest first",),
    "/messages?topic=orders&key=order-7": ("1 message, found by key",),
    "/messages?topic=orders&sql=region%3D%27eu%27&limit=3": ("3 messages",),
    "/messages?topic=orders&time=2020-01-01..&limit=2": ("2 messages, from the time on",),
    "/messages/{order}": ("Ada Lovelace", "region"),
    "/messages/{binary}?topic=refunds": ("00000010 10 11 12",),
    "/dead-letters": (f"mailer {LETTERS} ",),
    "/dead-letters/mailer": ("order-0",),
    "/waiting": ("timed orders", "half payments"),
    "/producers": ("shop", "PYTHON"),
    "/replication": ("Masters 1", "No slave is connected"),
    "/send?topic=orders": ("The topic must exist",),
    "/tail?topic=orders": ("Live tail of orders",),
    "/users": ("The brokers show no users",),
}


DIVIDED: Final = {
    "cometmq": ("divided", "Members subscribe differently to payments"),
    "rocketmq": ("", "only CometMQ's brokers report"),
}
"""What is shown of a group whose members subscribe differently, in the list and on its page."""


async def test_each_view_shows_what_the_broker_has(broker: peers.Peer) -> None:
    settings = ConsoleSettings(broker.namesrv)
    own = observing_cluster(settings)
    assert own is not None
    found = Observations()
    with living(broker.namesrv) as contents:
        ids = {field: sent.offset_id for field, sent in contents._asdict().items()}
        async with browsing(settings, found) as browser, own:
            await observe(own, found, lambda: 1_000)
            for path, shown in VIEWS.items():
                text = await browser.text(path.format(**ids))
                assert [part for part in shown if part not in text] == [], (path, text)
            listed, page = await browser.text("/groups?find=billing"), await browser.text("/groups/billing")
            assert DIVIDED[broker.name][0] in listed and DIVIDED[broker.name][1] in page
            assert found.lags.of_group("warehouse").total[-1], "it lags"
            lags = (await browser.page("/groups/warehouse/lags")).json()
            assert lags["total"] == found.lags.of_group("warehouse").total
            await act(browser, ids["order"])


async def act(browser: Browser, message_id: str) -> None:
    """Use what pages offer, and check that the broker has done it."""
    page = await browser.page("/send?topic=orders")
    sent = await browser.send(page, "/send", topic="refunds", body="by hand", keys="by-hand")
    assert "It is stored" in await browser.text(sent.headers["location"])
    address = f"/messages/{message_id}"
    handled = await browser.send(page, f"{address}/handle?topic=orders", group=HANDLED)
    assert "CR_SUCCESS" in text_of(handled)
    again = await browser.send(page, f"{address}/send-again?topic=orders", to="refunds")
    assert "It is stored" in await browser.text(again.headers["location"])
    reset = await browser.send(page, "/groups/warehouse/reset", topic="orders", to="earliest")
    assert "Its offsets in orders were reset" in await browser.text(reset.headers["location"])
    letters = await browser.page("/dead-letters/mailer")
    tick = letters.text.partition('name="letter.')[2].partition('"')[0]
    resent = await browser.send(letters, "/dead-letters/mailer/resend", **{f"letter.{tick}": "1"})
    assert "1 sent again" in await browser.text(resent.headers["location"])
