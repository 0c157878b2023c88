import re

import pytest
from tests.console.conftest import Browser, browsing

from cometmq.console.application import PAGES, status_of
from cometmq.console.settings import ConsoleSettings
from cometmq.errors import (
    AccessError,
    CometMQError,
    FormatError,
    NetworkError,
    NoBroker,
    NoRoute,
    ProtocolError,
    RemoteError,
    SettingsError,
)
from cometmq.net.address import free_port
from cometmq.wire.codes import ResponseCode


async def test_each_page_without_parts_is_shown_and_has_nothing_inline(browser: Browser) -> None:
    for path in PAGES:
        if "{" not in path:
            page = await browser.page(path)
            assert not re.search(r"<style|style=|<script(?![^>]+src=)|\son\w+=|javascript:", page.text), path
            for asset in re.findall(r'(?:src|href)="(/static[^"]+)"', page.text):
                await browser.page(asset)


async def test_a_page_that_is_not_there_says_so(browser: Browser) -> None:
    assert "there is no page /nowhere<" in (await browser.page("/nowhere", 404)).text.replace("</p>", "<")
    assert (await browser.page("/healthz")).text == "ok\n"


async def test_without_a_name_server_each_page_says_which_did_not_answer() -> None:
    address = f"127.0.0.1:{free_port()}"
    async with browsing(ConsoleSettings(address)) as browser:
        assert address in await browser.text("/topics", 504)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (NoRoute("x"), 404),
        (RemoteError(ResponseCode.TOPIC_NOT_EXIST, "x"), 404),
        (RemoteError(ResponseCode.NO_PERMISSION, "x"), 403),
        (RemoteError(ResponseCode.SYSTEM_ERROR, "x"), 502),
        (AccessError("x"), 403),
        (SettingsError("x"), 400),
        (FormatError("x"), 400),
        (NetworkError("x"), 504),
        (NoBroker("x"), 504),
        (ProtocolError("x"), 502),
    ],
)
def test_an_error_has_the_status_of_its_kind(error: CometMQError, status: int) -> None:
    assert status_of(error) == status
