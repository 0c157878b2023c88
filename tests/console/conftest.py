"""A console over an embedded broker, and a browser without scripts for it."""

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from html import unescape
from typing import Any, NamedTuple

import httpx
import pytest

from cometmq.console.application import application
from cometmq.console.guarding import FORM_TOKEN
from cometmq.console.observing import Observations
from cometmq.console.rendering import environment
from cometmq.console.settings import ConsoleSettings
from cometmq.console.visit import Site
from cometmq.console.visitors import Visitors
from cometmq.console.workload import Workload
from cometmq.testing.embedded_broker import EmbeddedBroker
from cometmq.wire.acl import Credentials

ORIGIN = "http://localhost:8090"
ROOT = Credentials("root", "root-secret")
FORM = {"user": ROOT.access_key, "secret": ROOT.secret_key}
"""With which it signs in."""
_TAG = re.compile(r"<[^>]+>")
_TOKEN = re.compile(rf'name="{FORM_TOKEN}" value="([^"]+)"')


@pytest.fixture(scope="module")
def guarded() -> Iterator[EmbeddedBroker]:
    """Run a broker whose clients must sign as ``ROOT``."""
    with EmbeddedBroker(credentials=ROOT) as broker:
        yield broker


def text_of(page: httpx.Response) -> str:
    """Return what a page shows: its text, with each run of white space as one space."""
    body = page.text.partition('<main id="main">')[2]
    return " ".join(unescape(_TAG.sub(" ", body)).split())


class Browser(NamedTuple):
    """Opens pages and sends their forms."""

    client: httpx.AsyncClient

    async def page(self, path: str, status: int = 200) -> httpx.Response:
        """Open a page that has this status."""
        answer = await self.client.get(path)
        assert answer.status_code == status, text_of(answer)
        return answer

    async def text(self, path: str, status: int = 200) -> str:
        return text_of(await self.page(path, status))

    async def send(self, page: httpx.Response, path: str, **fields: Any) -> httpx.Response:
        """Send a form of a page, with the page's own token."""
        token = _TOKEN.findall(page.text)[0]
        return await self.client.post(path, data={FORM_TOKEN: token} | fields)


@asynccontextmanager
async def browsing(
    settings: ConsoleSettings, observations: Observations | None = None
) -> AsyncIterator[Browser]:
    """Open a browser at a console with these settings, which has observed this."""
    async with Visitors(settings, lambda: 0) as visitors:
        workload = Workload(settings.exports_max)
        site = Site(settings, environment(), visitors, observations or Observations(), workload)
        app = application(site)
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url=ORIGIN) as client:
            yield Browser(client)


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    """Return a broker that all tests of a module share: they use topics and groups of their own."""
    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture
async def browser(broker: EmbeddedBroker) -> AsyncIterator[Browser]:
    async with browsing(ConsoleSettings(broker.name_server)) as browser:
        yield browser
