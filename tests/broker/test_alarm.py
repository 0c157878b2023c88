"""Work that is done when there is some."""

import asyncio

import pytest

from cometmq.broker import alarm as alarm_module
from cometmq.broker.alarm import Alarm


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
    await asyncio.wait_for(clockwork.done.wait(), 10)
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
    monkeypatch.setattr(alarm_module, "AGAIN_MS", 1)
    told: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["message"]))
    results, done = iter([OSError("no"), None]), asyncio.Event()

    def act() -> None:
        if (result := next(results)) is not None:
            raise result
        done.set()

    alarm = Alarm(act)
    alarm.ring()
    await asyncio.wait_for(done.wait(), 10)
    assert len(told) == 1
