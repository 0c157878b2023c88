"""When the wall clock was set, and what was stored before."""

import pytest

from cometmq.io.clock import ManualClock
from cometmq.store import clock_steps
from cometmq.store.clock_steps import STEP_MS, ClockSteps

HOUR_MS = 3_600_000


class Log:
    """Where the log ends."""

    def __init__(self) -> None:
        self.end_offset = 0


def watched() -> tuple[ClockSteps, ManualClock, Log]:
    clock, log = ManualClock(), Log()
    return ClockSteps(clock, lambda: log.end_offset), clock, log


def test_time_that_passes_is_no_step_however_much_it_is() -> None:
    steps, clock, _ = watched()
    clock.advance(1_000 * HOUR_MS)
    assert (steps.now_ms(), steps.monotonic_ms()) == (clock.now_ms(), clock.monotonic_ms())
    assert steps.since(-1) == 0


@pytest.mark.parametrize("step_ms", [HOUR_MS, -HOUR_MS, STEP_MS, -STEP_MS])
def test_what_was_stored_before_a_step_is_told_from_what_came_later(
    step_ms: int, caplog: pytest.LogCaptureFixture
) -> None:
    steps, clock, log = watched()
    log.end_offset = 700
    clock.set_wall(clock.now_ms() + step_ms)
    assert steps.now_ms() == clock.now_ms()
    assert [steps.since(offset) for offset in (0, 699, 700)] == [step_ms, step_ms, 0]
    assert steps.now_ms() == clock.now_ms() and len(caplog.records) == 1, "told once"
    direction = "ahead" if step_ms > 0 else "back"
    assert f"the wall clock was set {direction} by {abs(step_ms) / 1000:.1f} s" in caplog.text


def test_steps_add_up() -> None:
    steps, clock, log = watched()
    for log.end_offset, step_ms in ((10, HOUR_MS), (20, -3 * HOUR_MS), (30, 5_000)):
        clock.set_wall(clock.now_ms() + step_ms)
        steps.now_ms()
    assert [steps.since(offset) for offset in (9, 10, 20, 30)] == [
        5_000 - 2 * HOUR_MS,
        5_000 - 3 * HOUR_MS,
        5_000,
        0,
    ]


def test_small_steps_are_not_noted() -> None:
    steps, clock, _ = watched()
    clock.set_wall(clock.now_ms() + STEP_MS - 1)
    steps.now_ms()
    assert steps.since(-1) == 0


def test_a_process_that_stood_still_between_two_looks_is_no_step() -> None:
    class Halting(ManualClock):
        """Stands still once, before it gives the monotonic clock."""

        halts = False

        def monotonic_ms(self) -> int:
            if self.halts:
                self.halts = False
                self.advance(HOUR_MS)
            return super().monotonic_ms()

    clock = Halting()
    steps = ClockSteps(clock, lambda: 100)
    clock.halts = True
    assert steps.now_ms() == clock.now_ms()
    assert steps.since(0) == 0


def test_so_many_steps_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock_steps, "STEPS_MAX", 3)
    steps, clock, log = watched()
    for log.end_offset in range(1, 6):
        clock.set_wall(clock.now_ms() + HOUR_MS)
        steps.now_ms()
    assert steps.since(0) == 3 * HOUR_MS
