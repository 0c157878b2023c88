"""Each view of a cluster: it shows what the cluster has, and axe-core finds no serious fault in it."""

import math
from typing import Final

import pytest
from tests.campaigns.pages.console_tour.conftest import Cluster
from tests.campaigns.pages.console_tour.contents import LETTERS, ORDERS
from tests.campaigns.pages.console_tour.tour import Tour

from cometmq.blocking import Producer
from cometmq.console.application import PAGES
from cometmq.message import Message

pytestmark = pytest.mark.browser

VIEWS: Final = {
    "overview": ("/", "Worst lags", "warehouse"),
    "topics": ("/topics", "orders", "settlement-reconciliation_eu-west-1_daily"),
    "topics-system": ("/topics?system=1&sort=lag", "TBW102"),
    "topic": ("/topics/orders", "Queues 4", "warehouse"),
    "groups": ("/groups", "billing", "warehouse offline"),
    "tail": ("/tail?topic=orders", "Following:", "Pause"),
    "group": ("/groups/billing?owners=1", "subscribe differently", "Members 2"),
    "group-offline": ("/groups/warehouse", "No member is connected"),
    "reset": ("/groups/warehouse/reset?topic=orders&to=latest", "skips", "cometmq offset reset warehouse"),
    "messages": ("/messages?topic=orders&limit=20", "20 messages, the newest first", "CSV"),
    "messages-key": ("/messages?topic=orders&key=order-7", "1 message, found by key"),
    "messages-none": ("/messages?topic=orders&tags=nothing", "No message was found among"),
    "message-json": ("/messages/{order}", '"Ada Lovelace"', "region"),
    "message-hex": ("/messages/{binary}?topic=refunds&view=hex", "00000010 10 11 12"),
    "message-traced": ("/messages/{traced}", "sent to 127.0.0.1:"),
    "dead-letters": ("/dead-letters", f"mailer {LETTERS} "),
    "letters": ("/dead-letters/mailer", "order-0", "Send the ticked ones again"),
    "waiting": ("/waiting", "timed orders", "half payments"),
    "producers": ("/producers", "shop", "PYTHON"),
    "replication": ("/replication", "Masters 1", "No slave is connected"),
    "send": ("/send?topic=orders", "The topic must exist"),
}


def test_each_page_has_a_view() -> None:
    paths = [path.partition("?")[0] for path, *_ in VIEWS.values()]
    missing = [page for page in PAGES if not any(_is_of(path, page) for path in paths)]
    assert missing == ["/users", "/users/{user}"], "those are visited where there are users"


def _is_of(path: str, page: str) -> bool:
    parts, wanted = path.split("/"), page.split("/")
    return len(parts) == len(wanted) and all(
        part == one or one.startswith("{") for part, one in zip(parts, wanted, strict=True)
    )


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_shows_what_there_is(name: str, cluster: Cluster, tour: Tour) -> None:
    path, *shown = VIEWS[name]
    ids = {field: sent.offset_id for field, sent in cluster.contents._asdict().items()}
    text = tour.open(path.format(**ids))
    assert [part for part in shown if part not in text] == [], text
    tour.look(name)


def test_pages_lead_to_one_another(tour: Tour) -> None:
    tour.open("/")
    page = tour.page
    for link in (
        "Topics",
        "Groups",
        "Messages",
        "Dead letters",
        "Waiting",
        "Producers",
        "Replication",
        "Overview",
    ):
        page.get_by_role("navigation", name="Pages").get_by_role("link", name=link, exact=True).click()
        assert (
            page.get_by_role("heading", level=1)
            .first.inner_text()
            .startswith("What waits" if link == "Waiting" else link)
        )
    page.get_by_role("link", name="warehouse").first.click()
    assert page.url.endswith("/groups/warehouse")
    page.get_by_role("link", name="orders").first.click()
    page.get_by_role("link", name="Browse its messages").click()
    page.get_by_label("Key").fill("order-9")
    page.get_by_role("button", name="Find").click()
    page.locator("tbody a").first.click()
    assert '"id": 9' in tour.text() and tour.faults == []


def test_figures_are_renewed_without_a_click(tour: Tour) -> None:
    tour.open("/topics")
    with tour.page.expect_response(lambda answer: answer.url.endswith("/topics?sort=name&page=1")):
        pass
    assert "orders" in tour.text() and tour.faults == []


def test_new_messages_come_to_a_page_that_follows_a_topic(cluster: Cluster, tour: Tour) -> None:
    tour.open("/tail?topic=refunds")
    page = tour.page
    page.get_by_text("Following: 0 new.").wait_for()
    with Producer(cluster.name_server) as producer:
        producer.send(Message("refunds", b"<b>bold</b>", keys=("new",)))
        page.locator("tbody tr").first.wait_for()
        assert "<b>bold</b>" in tour.text() and "Following: 1 new." in tour.text()
        tour.look("tail-new")
        page.get_by_role("button", name="Pause").click()
        producer.send(Message("refunds", b"while it pauses"))
    page.get_by_role("button", name="Follow", exact=True).last.click()
    page.get_by_text("Following: 1 new.").wait_for()
    assert "while it pauses" not in tour.text(), "it follows from then on"


def test_the_lag_of_a_group_is_drawn(tour: Tour) -> None:
    times = [1_795_600_000_000 + 30_000 * number for number in range(240)]
    total = [round(4_000 + 3_000 * math.sin(number / 30) + number % 7 * 40) for number in range(240)]
    queues = [
        {"name": f"orders broker-a:{number}", "lags": [lag // (number + 2) for lag in total]}
        for number in range(4)
    ]
    sampled = {"times": times, "total": total, "queues": queues, "queue_count": 9, "is_whole": True}
    tour.page.route("**/groups/warehouse/lags", lambda route: route.fulfill(json=sampled))
    tour.open("/groups/warehouse")
    tour.page.locator(".u-legend").wait_for()
    assert "The 5 queues with smaller lags are only in the total" in tour.text()
    tour.look("group-lags")
    tour.page.unroute("**/groups/warehouse/lags")
    assert "Lag over time" in tour.open("/groups/warehouse")


def test_what_was_found_is_downloaded(tour: Tour) -> None:
    tour.open("/messages?topic=orders&time=2020-01-01..&limit=500")
    with tour.page.expect_download() as downloading:
        tour.page.get_by_role("link", name="JSON lines").click()
    downloaded = downloading.value
    assert downloaded.suggested_filename == "orders.jsonl"
    assert len(downloaded.path().read_text().splitlines()) >= ORDERS
