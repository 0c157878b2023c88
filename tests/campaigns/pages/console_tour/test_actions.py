"""Each action of a cluster's pages, by its form, and each input that is refused."""

from typing import Final

import pytest
from playwright.sync_api import Browser
from tests.campaigns.pages.console_tour.conftest import Cluster, console
from tests.campaigns.pages.console_tour.contents import HANDLED
from tests.campaigns.pages.console_tour.tour import Tour, touring

from cometmq.testing.embedded_broker import EmbeddedBroker

pytestmark = pytest.mark.browser

REFUSED: Final = {
    "/nowhere": (404, "there is no page"),
    "/topics/nowhere": (404, "no route for topic"),
    "/topics?sort=colour": (400, "sort 'colour': give one of"),
    "/topics?page=0": (400, "write a whole number from 1"),
    "/groups/nobody": (404, "no group 'nobody'"),
    "/groups?sort=colour": (400, "give one of name"),
    "/groups/warehouse/reset?topic=orders&to=tomorrow": (400, "is not a time"),
    "/groups/warehouse/reset?topic=nowhere&to=latest": (404, "no route for topic"),
    "/messages?topic=orders&offset=3": (400, "give the queue too"),
    "/messages?topic=orders&time=yesterday": (400, "is not a time"),
    "/messages?topic=orders&limit=501": (400, "write a whole number from 1 to 500"),
    "/messages?topic=orders&sql=region+%3D": (400, "the filter ends too early"),
    "/messages?topic=nowhere": (404, "no route for topic"),
    "/tail?topic=orders&sql=region+%3D": (400, "the filter ends too early"),
    "/messages/nonsense": (400, "give its topic"),
    "/dead-letters/mailer?time=never": (400, "is not a time"),
}


@pytest.mark.parametrize("path", REFUSED)
def test_an_input_that_cannot_be_used_is_refused_with_the_remedy(path: str, tour: Tour) -> None:
    status, told = REFUSED[path]
    assert told in tour.open(path, status)
    tour.look("refused")


def test_a_message_is_sent_and_sent_again_and_handled(tour: Tour) -> None:
    tour.open("/messages?topic=orders")
    page = tour.page
    page.get_by_role("link", name="Send a message").click()
    page.get_by_label("Tag").fill("paid")
    page.get_by_label("Keys").fill("by-hand")
    page.get_by_label("Body").fill('{"by": "hand"}')
    page.get_by_label("Properties").fill("region=eu\nshop=a=b")
    page.get_by_role("button", name="Send", exact=True).click()
    assert "It is stored" in tour.text() and '"by": "hand"' in tour.text() and "a=b" in tour.text()
    tour.look("sent")
    address = page.url
    page.get_by_label("Send it as a new message").fill("refunds")
    page.get_by_role("button", name="Send again").click()
    assert "refunds" in tour.text() and page.url != address
    page.goto(address)
    page.get_by_label("Let a member handle it now").fill(HANDLED)
    page.get_by_role("button", name="Handle now").click()
    assert "CR_SUCCESS" in tour.text()
    tour.look("handled")


@pytest.mark.parametrize(
    ("field", "text", "told"),
    [
        ("Topic", "order", "no route for topic 'order'"),
        ("Delay", "1h", "delay '1h': write a whole number"),
        ("Properties", "region", "write it as NAME=VALUE"),
    ],
)
def test_a_message_that_cannot_be_sent_is_refused(field: str, text: str, told: str, tour: Tour) -> None:
    tour.open("/send?topic=orders")
    tour.page.get_by_label(field).fill(text)
    tour.page.get_by_role("button", name="Send", exact=True).click()
    assert told in tour.text()


def test_offsets_are_reset_after_they_were_shown(tour: Tour) -> None:
    tour.open("/groups/warehouse/reset?topic=orders")
    page = tour.page
    page.get_by_label("To", exact=True).fill("earliest")
    page.get_by_role("button", name="Show what would change").click()
    assert "repeats" in tour.text()
    page.get_by_role("button", name="Reset the offsets of warehouse in orders").click()
    assert "Its offsets in orders were reset" in tour.text()
    tour.look("group-reset")


def test_ticked_dead_letters_are_sent_again(tour: Tour) -> None:
    tour.open("/dead-letters/mailer")
    page = tour.page
    page.get_by_role("button", name="Send the ticked ones again").click()
    assert "tick the dead letters" in tour.text()
    page.go_back()
    page.get_by_role("checkbox", name="Letter of").first.check()
    page.get_by_role("button", name="Send the ticked ones again").click()
    assert "1 sent again" in tour.text()


def test_a_form_that_is_out_of_date_changes_nothing(tour: Tour) -> None:
    tour.open("/send?topic=orders")
    tour.page.locator('input[name="form_token"]').evaluate("field => { field.value = 'guess' }")
    tour.page.get_by_role("button", name="Send", exact=True).click()
    assert "open its page again" in tour.text()


def test_a_read_only_console_has_no_forms_that_change_something(browser: Browser, cluster: Cluster) -> None:
    with (
        console("--read-only", "--namesrv", cluster.name_server) as address,
        touring(browser, address) as tour,
    ):
        for path in ("/send", "/dead-letters/mailer", f"/messages/{cluster.contents.order.offset_id}"):
            tour.open(path)
            assert tour.page.locator('form[method="post"]').count() == 0
        tour.look("read-only")


def test_visitors_sign_in_and_out(browser: Browser, guarded: EmbeddedBroker) -> None:
    with (
        console("--login", "--namesrv", guarded.name_server) as address,
        touring(browser, address) as tour,
    ):
        tour.open("/topics")
        page = tour.page
        assert page.url.endswith("/sign-in")
        for secret, told in (("wrong", "check signature failed"), ("root-secret", "Brokers 1")):
            page.get_by_label("User").fill("root")
            page.get_by_label("Secret").fill(secret)
            page.get_by_role("button", name="Sign in").click()
            assert told in tour.text()
            tour.look("signed-in" if secret == "root-secret" else "sign-in")
        change_users(tour)
        page.get_by_role("button", name="Sign out root").click()
        assert page.url.endswith("/sign-in")


def change_users(tour: Tour) -> None:
    """Create a user, allow it something, check that, and remove both."""
    page = tour.page
    page.get_by_role("link", name="Users").click()
    page.get_by_label("Name", exact=True).fill("billing")
    page.get_by_label("Password").fill("billing-secret")
    tour.look("users")
    page.get_by_role("button", name="Create").click()
    assert "It is created" in tour.text() and "It has no acl" in tour.text()
    page.get_by_role("button", name="Store the entry").click()
    entry = page.locator("form", has=page.get_by_role("button", name="Store the entry"))
    entry.get_by_label("Resource").fill("Topic:orders-*")
    page.get_by_role("button", name="Store the entry").click()
    assert "tick at least one" in tour.text()
    page.go_back()
    entry.get_by_label("Resource").fill("Topic:orders-*")
    entry.get_by_role("checkbox", name="Pub").check()
    page.get_by_role("button", name="Store the entry").click()
    assert "Allow Topic:orders-* Pub anywhere custom" in tour.text()
    for resource, told in (("Topic:orders-1", "It may."), ("Topic:refunds", "has no permission")):
        page.get_by_label("on", exact=True).fill(resource)
        page.get_by_role("button", name="Check").click()
        assert told in tour.text()
        tour.look("user")
    page.get_by_label("Status").select_option("disable")
    page.get_by_role("button", name="Change the user").click()
    assert "normal disabled" in tour.text()
    page.get_by_role("button", name="Remove the entry of").click()
    assert "It has no acl" in tour.text()
    page.get_by_role("button", name="Remove billing and its acl").click()
    assert "User billing and what it might do is removed" in tour.text()
