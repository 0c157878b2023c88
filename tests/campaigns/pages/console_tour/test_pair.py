"""The page of masters and slaves, where there are both."""

from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Browser
from tests.campaigns.pages.console_tour.conftest import console
from tests.campaigns.pages.console_tour.tour import touring
from tests.interop import peers

pytestmark = pytest.mark.browser

BOTH: Final[dict[str, object]] = peers.PATIENT | {"brokerName": "pair"}
SLAVE: Final[dict[str, object]] = {"brokerRole": "SLAVE", "brokerId": 1}


def test_a_slave_comes_in_sync_without_a_click(browser: Browser, tmp_path: Path) -> None:
    master = BOTH | {"haListenPort": peers.free_port()}
    with (
        peers.cometmq_namesrv() as name_server,
        peers.cometmq_broker(tmp_path / "master", name_server, master),
        console("--namesrv", name_server) as address,
        touring(browser, address) as tour,
    ):
        assert "No slave is connected to a master." in tour.open("/replication")
        with peers.cometmq_broker(tmp_path / "slave", name_server, BOTH | SLAVE):
            tour.page.get_by_text("in sync", exact=True).wait_for()
            assert "Connected slaves 1 In sync 1" in tour.text() and " slave 1 127" in tour.text()
            tour.look("replication-pair")
        tour.page.get_by_text("No slave is connected to a master.").wait_for()
