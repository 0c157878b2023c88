from collections.abc import AsyncIterator

import pytest
from tests.console.conftest import ROOT, Browser, browsing, text_of

from cometmq.console.observing import Observations
from cometmq.console.settings import ConsoleSettings
from cometmq.testing.embedded_broker import EmbeddedBroker


@pytest.fixture
async def of_users(guarded: EmbeddedBroker) -> AsyncIterator[Browser]:
    settings = ConsoleSettings(guarded.name_server, credentials=ROOT)
    async with browsing(settings, Observations(has_users=True)) as browser:
        yield browser


async def created(browser: Browser, name: str) -> str:
    """Create a user; return the address of its page."""
    sent = await browser.send(
        await browser.page("/users"), "/users", name=name, password="secret", type="Normal"
    )
    assert "It is created" in await browser.text(sent.headers["location"])
    return f"/users/{name}"


async def test_a_user_is_created_changed_and_removed(of_users: Browser) -> None:
    address = await created(of_users, "shop")
    listed = await of_users.text("/users")
    assert "root super enabled 0 embedded" in listed and "shop normal enabled 0 embedded" in listed
    assert (
        "root" not in (await of_users.text("/users?find=sho")).partition("Brokers")[2].partition("Create")[0]
    )
    page = await of_users.page(address)
    assert "It has no acl" in text_of(page) and "secret" not in text_of(page)
    await of_users.send(page, address, type="Super", status="disable", password="")
    assert "super disabled" in await of_users.text(address)
    gone = await of_users.send(page, f"{address}/remove")
    assert "User shop and what it might do is removed" in await of_users.text(gone.headers["location"])
    assert "no user 'shop'" in await of_users.text(address, 404)


async def test_entries_are_stored_checked_and_removed(of_users: Browser) -> None:
    address = await created(of_users, "billing")
    page = await of_users.page(address)
    fields = {"resource": "Topic:orders-*", "action.Pub": "1", "action.Sub": "1", "decision": "Allow"}
    stored = await of_users.send(page, f"{address}/entries", sources="127.0.0.1 10.0.0.0/8", **fields)
    text = await of_users.text(stored.headers["location"])
    assert "Allow Topic:orders-* Pub, Sub 127.0.0.1, 10.0.0.0/8 custom embedded" in text
    check = f"{address}?action=Pub&resource=Topic:orders-1"
    allowed = await of_users.text(check)
    assert "It may. The custom policy decides: Allow Pub, Sub on Topic:orders-* ." in allowed
    assert "has no permission" in await of_users.text(f"{check}&address=192.0.2.7")
    removed = await of_users.send(page, f"{address}/entries/remove", resource="Topic:orders-*")
    assert "The entry is removed" in await of_users.text(removed.headers["location"])
    assert "It has no acl" in await of_users.text(address)


@pytest.mark.parametrize(
    ("path", "fields", "told"),
    [
        ("", {"name": "x"}, "give the name of the user, and its password"),
        ("", {"name": "x", "password": "y", "type": "King"}, "type 'King': give one of Normal, Super"),
        ("/nobody/entries", {"resource": "orders", "action.Pub": "1"}, "resource 'orders': give one such as"),
        ("/nobody/entries", {"resource": "Topic:x"}, "tick at least one of"),
        ("/nobody/entries/remove", {}, "give the resource whose entry to remove"),
    ],
)
async def test_what_cannot_be_stored_is_refused_with_the_remedy(
    of_users: Browser, path: str, fields: dict[str, str], told: str
) -> None:
    refused = await of_users.send(await of_users.page("/users"), f"/users{path}", **fields)
    assert refused.status_code == 400 and told in text_of(refused)


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("action=Fly&resource=Topic:x", "action 'Fly': give one of"),
        ("action=Pub&resource=Topic:x*", "give a single one"),
        ("action=Pub&resource=Topic:x&address=here", "address 'here': give an IP address"),
    ],
)
async def test_what_cannot_be_checked_is_told(of_users: Browser, query: str, told: str) -> None:
    assert told in await of_users.text(f"/users/root?{query}", 400)


async def test_a_console_that_is_read_only_shows_them_without_forms(guarded: EmbeddedBroker) -> None:
    settings = ConsoleSettings(guarded.name_server, credentials=ROOT, read_only=True)
    async with browsing(settings) as browser:
        for path in ("/users", "/users/root"):
            assert 'method="post"' not in (await browser.page(path)).text


async def test_where_brokers_have_no_users_the_page_says_how_to_have_some(browser: Browser) -> None:
    assert 'href="/users"' not in (await browser.page("/")).text
    assert "set authenticationEnabled=true" in await browser.text("/users")


async def test_where_brokers_have_users_each_page_leads_to_them(of_users: Browser) -> None:
    assert 'href="/users"' in (await of_users.page("/topics")).text
