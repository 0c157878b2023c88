"""What peers can cause as often as they like is logged now and then."""

import asyncio

import pytest

from cometmq.net import occasional_log
from cometmq.net.occasional_log import OccasionalLog


async def test_the_first_event_is_logged_at_once_and_later_ones_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(occasional_log, "LOG_INTERVAL_S", 0.01)
    logged: list[int] = []
    written = asyncio.Event()

    def log(count: int) -> None:
        logged.append(count)
        written.set()

    events = OccasionalLog(log)
    for _ in range(5):
        events.add()
    assert logged == [1]
    written.clear()
    await asyncio.wait_for(written.wait(), 60)
    assert logged == [1, 4]
    events.close()


async def test_closing_logs_what_is_left_and_nothing_twice() -> None:
    logged: list[int] = []
    events = OccasionalLog(logged.append)
    for _ in range(3):
        events.add()
    events.close()
    events.close()
    assert logged == [1, 2]
