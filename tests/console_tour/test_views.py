"""Each view of a cluster: it shows what the cluster has, and axe-core finds no serious fault in it."""

from typing import Final

import pytest
from tests.console_tour.conftest import Cluster
from tests.console_tour.contents import LETTERS, ORDERS
from tests.console_tour.tour import Tour

from cometmq.console.application import PAGES

pytestmark = pytest.mark.browser

VIEWS: Final = {
    "overview": ("/", "Worst lags", "warehouse"),
    "topics": ("/topics", "orders", "settlement-reconciliation_eu-west-1_daily"),
    "topics-system": ("/topics?system=1&sort=lag", "TBW102"),
    "topic": ("/topics/orders", "Queues 4", "warehouse"),
    "groups": ("/groups", "billing divided", "warehouse offline"),
    "group": ("/groups/billing?owners=1", "Members subscribe differently", "Members 2"),
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
    "send": ("/send?topic=orders", "The topic must exist"),
}


def test_each_page_has_a_view() -> None:
    paths = [path.partition("?")[0] for path, *_ in VIEWS.values()]
    missing = [page for page in PAGES if not any(_is_of(path, page) for path in paths)]
    assert missing == []


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
    for link in ("Topics", "Groups", "Messages", "Dead letters", "Waiting", "Producers", "Overview"):
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


def test_what_was_found_is_downloaded(tour: Tour) -> None:
    tour.open("/messages?topic=orders&time=2020-01-01..&limit=500")
    with tour.page.expect_download() as downloading:
        tour.page.get_by_role("link", name="JSON lines").click()
    downloaded = downloading.value
    assert downloaded.suggested_filename == "orders.jsonl"
    assert len(downloaded.path().read_text().splitlines()) >= ORDERS
