"""Actions that the loop calls: at intervals, or when one is due."""

import asyncio
from typing import Any

import pytest

from cometmq.broker import timers
from cometmq.broker.timers import Alarm, Periodic


class Clockwork:
    """An alarm whose action says what it is told to say, and the calls of it."""

    def __init__(self, *waits_ms: int | None) -> None:
        self.calls = 0
        self.done = asyncio.Event()
        self._waits_ms = list(waits_ms)
        self.alarm = Alarm(self._act)

    def _act(self) -> int | None:
        self.calls += 1
        if len(self._waits_ms) == 1:
            self.done.set()
        return self._waits_ms.pop(0) if self._waits_ms else None


async def turns(number: int = 3) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


async def test_nothing_runs_until_it_is_rung_and_then_once() -> None:
    clockwork = Clockwork(None, None)
    await turns()
    assert clockwork.calls == 0
    for _ in range(5):
        clockwork.alarm.ring()
    await turns()
    assert clockwork.calls == 1


async def test_the_action_says_when_it_is_called_again() -> None:
    clockwork = Clockwork(0, 1, 0, None)
    clockwork.alarm.ring()
    await asyncio.wait_for(clockwork.done.wait(), 60)
    await turns()
    assert clockwork.calls == 4


async def test_who_is_rung_does_not_wait_on() -> None:
    clockwork = Clockwork(3_600_000, None)
    clockwork.alarm.ring()
    await turns()
    clockwork.alarm.ring()
    await turns()
    assert clockwork.calls == 2


async def test_one_that_is_rung_by_its_own_action_is_called_once_more() -> None:
    calls = []

    def act() -> int | None:
        calls.append(1)
        if len(calls) == 1:
            alarm.ring()
        return 0 if len(calls) == 1 else None

    alarm = Alarm(act)
    alarm.ring()
    await turns(6)
    assert len(calls) == 2


async def test_after_the_stop_nothing_is_called() -> None:
    clockwork = Clockwork(0, 0)
    clockwork.alarm.ring()
    clockwork.alarm.stop()
    clockwork.alarm.ring()
    await turns()
    assert clockwork.calls == 0


async def test_one_that_fails_is_told_and_called_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timers, "AGAIN_MS", 1)
    told: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["message"]))
    results, done = iter([OSError("no"), None]), asyncio.Event()

    def act() -> None:
        if (result := next(results)) is not None:
            raise result
        done.set()

    alarm = Alarm(act)
    alarm.ring()
    await asyncio.wait_for(done.wait(), 60)
    assert len(told) == 1


async def test_an_action_is_called_again_and_again_until_the_stop() -> None:
    async def main() -> int:
        done = asyncio.Event()
        calls = 0

        def act() -> None:
            nonlocal calls
            calls += 1
            if calls == 3:
                done.set()

        periodic = Periodic()
        periodic.every(1, act)
        await done.wait()
        periodic.stop()
        seen = calls
        await asyncio.to_thread(int)  # the loop has had its turn meanwhile
        return calls - seen

    assert await main() == 0


async def test_an_action_says_when_it_has_to_be_called_again() -> None:
    async def main() -> int:
        done = asyncio.Event()
        waits_ms = [1, 1, 1, 3_600_000]

        def act() -> int:
            if len(waits_ms) == 1:
                done.set()
            return waits_ms.pop(0)

        periodic = Periodic()
        periodic.every(1, act)
        await asyncio.wait_for(done.wait(), 60)
        periodic.stop()
        return len(waits_ms)

    assert await main() == 0


async def test_an_action_may_stop_everything() -> None:
    async def main() -> int:
        calls = 0

        def act() -> int:
            nonlocal calls
            calls += 1
            periodic.stop()
            return 0

        periodic = Periodic()
        periodic.every(0, act)
        for _ in range(10):
            await asyncio.sleep(0)
        return calls

    assert await main() == 1


async def test_an_action_that_raises_is_reported_and_called_again() -> None:
    async def main() -> list[dict[str, Any]]:
        reported: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
        again = asyncio.Event()

        def act() -> None:
            if reported:
                again.set()
            raise ValueError("always")

        periodic = Periodic()
        periodic.every(1, act)
        await again.wait()
        periodic.stop()
        return reported

    assert "always" in str((await main())[0]["exception"])
