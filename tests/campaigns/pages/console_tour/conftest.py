"""Chromium, and the consoles that it visits."""

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from playwright.sync_api import Browser, sync_playwright
from tests.campaigns.pages.console_tour.contents import Contents, living
from tests.campaigns.pages.console_tour.tour import PATIENCE_MS, PICTURES, Tour, touring
from tests.cli.conftest import Process
from tests.console.conftest import ROOT
from tests.interop import peers

from cometmq.testing.embedded_broker import EmbeddedBroker

PROGRAMS: Final = ("chromium", "chromium-browser", "google-chrome")


class Cluster(NamedTuple):
    """A cluster in which something goes on, and the address of a console for it."""

    name_server: str
    contents: Contents
    console: str


def chromium() -> str:
    """Return the path of the system's Chromium."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    assert program is not None, f"there is none of {', '.join(PROGRAMS)}: apt-get install chromium"
    return program


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Start the system's Chromium."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), timeout=PATIENCE_MS)
        yield browser
        browser.close()


@contextmanager
def console(*options: str) -> Iterator[str]:
    """Run ``cometmq console``; yield its address."""
    with Process("console", "--port", "0", "--json", *options) as process:
        address: str = json.loads(process.line())["console"]
        yield address


@pytest.fixture(scope="session", params=["cometmq", "rocketmq"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Start a broker, CometMQ's or the reference's, and a console for it."""
    settings = {
        "enablePropertyFilter": "true",
        "traceTopicEnable": "true",
        "transactionTimeOut": 86_400_000,  # a half message waits as long as the tour takes
    }
    store = tmp_path_factory.mktemp(request.param) / "store"
    with (
        peers.START[request.param](store, settings) as peer,
        living(peer.namesrv) as contents,
        console("--namesrv", peer.namesrv) as address,
    ):
        yield Cluster(peer.namesrv, contents, address)


@pytest.fixture
def tour(browser: Browser, cluster: Cluster) -> Iterator[Tour]:
    """Open a window at the cluster's console."""
    with touring(browser, cluster.console) as tour:
        yield tour


@pytest.fixture(scope="session")
def directory(golden: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of a store that a real RocketMQ wrote."""
    return Path(shutil.copytree(golden["store-clean"], tmp_path_factory.mktemp("dead") / "store"))


@pytest.fixture(scope="session")
def guarded() -> Iterator[EmbeddedBroker]:
    """Start a broker with users, to which visitors sign in."""
    with EmbeddedBroker(credentials=ROOT) as broker:
        yield broker
