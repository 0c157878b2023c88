"""The console of a dead broker's directory: each view, the check, and what is refused."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Browser
from tests.campaigns.pages.console_tour.conftest import console
from tests.campaigns.pages.console_tour.tour import Tour, touring

pytestmark = pytest.mark.browser

LOG: Final = "commitlog/00000000000000000000"
VIEWS: Final = {
    "store": ("/", "Pointers", "Topics"),
    "store-files": ("/files", LOG, "checkpoint"),
    "store-log": (f"/files/{LOG}", "CommitLog file", "topic"),
    "store-checkpoint": ("/files/checkpoint", "checkpoint"),
    "store-nothing-found": ("/files?find=nothing-of-it", "Files 0"),
}
REFUSED: Final = {
    "/topics": (404, "there is no page"),
    "/files/nothing": (404, "no file 'nothing'"),
    "/files/..%2F..%2Fetc%2Fhostname": (404, "no file"),
    "/files/checkpoint?at=x": (400, "write a whole number"),
}


@pytest.fixture
def of_store(browser: Browser, directory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tour]:
    monkeypatch.chdir(directory.parent)  # pictures show the directory's name
    with console("--store", directory.name) as address, touring(browser, address) as tour:
        yield tour


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_shows_what_there_is(name: str, of_store: Tour) -> None:
    path, *shown = VIEWS[name]
    text = of_store.open(path)
    assert [part for part in shown if part not in text] == [], text
    of_store.look(name)


@pytest.mark.parametrize("path", REFUSED)
def test_an_input_that_cannot_be_used_is_refused(path: str, of_store: Tour) -> None:
    status, told = REFUSED[path]
    assert told in of_store.open(path, status)


def test_a_record_is_unfolded_and_the_store_is_verified(of_store: Tour) -> None:
    of_store.open(f"/files/{LOG}")
    page = of_store.page
    page.locator("summary").first.click()
    assert "physical_offset" in of_store.text()
    of_store.look("store-record")
    page.get_by_role("link", name="Verify").click()
    page.get_by_role("button", name="Verify the store").click()
    assert "Sound" in of_store.text()
    of_store.look("store-check")
