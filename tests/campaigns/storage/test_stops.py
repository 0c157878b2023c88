"""A broker that is told to stop under load ends with 0, and has all that it acknowledged when it is back."""

import asyncio
import signal
import time
from pathlib import Path

import pytest
from tests.campaigns.kit import traffic
from tests.campaigns.storage.strategies import STRATEGIES, Strategy
from tests.interop.ports import free_port

ACKNOWLEDGED = 500
"""It is told to stop then; the producers go on until they are refused."""
PATIENCE_S = 300
JUDGED = [
    strategy for strategy in STRATEGIES if strategy.has_pool or strategy.name == "SYNC_FLUSH, mapped file"
]
"""The way that syncs each message, and the one that holds messages in memory of its own."""


@pytest.mark.parametrize("strategy", JUDGED, ids=lambda strategy: strategy.name)
def test_sigterm_under_load_loses_nothing_acknowledged(strategy: Strategy, tmp_path: Path) -> None:
    port, namesrv_port = free_port(), free_port()
    name_server = f"127.0.0.1:{namesrv_port}"
    store, settings = tmp_path / "store", traffic.write_settings(strategy, tmp_path)
    acknowledged: dict[traffic.Place, traffic.Acknowledgement] = {}
    with traffic.broker(store, settings, port, namesrv_port) as process:
        asyncio.run(traffic.make_topics(name_server))

        def goes_on() -> bool:
            if len(acknowledged) == ACKNOWLEDGED:
                process.send_signal(signal.SIGTERM)
            return False

        asyncio.run(traffic.send_all_the_time(name_server, 0, acknowledged, goes_on))
        assert process.wait(PATIENCE_S) == 0, (tmp_path / "broker.log").read_text()
    assert not (store / "abort").exists(), "it looks as if it had been killed"
    with traffic.broker(store, settings, port, namesrv_port):
        stored = asyncio.run(traffic.read_on(name_server, {}))
    assert len(acknowledged) >= ACKNOWLEDGED
    assert traffic.ages_of_lost(acknowledged, stored, time.monotonic()) == []
    traffic.check_bodies(stored)
