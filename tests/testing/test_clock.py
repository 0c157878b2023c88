import pytest

from cometmq.errors import IllegalType
from cometmq.io.clock import SystemClock
from cometmq.testing.clock import MovableClock


def test_time_passes_as_on_the_machine_and_more_when_told() -> None:
    moves: list[int] = []
    clock = MovableClock(lambda: moves.append(clock.now_ms()))
    machine = SystemClock()
    before, since = machine.now_ms(), machine.monotonic_ms()
    assert before <= clock.now_ms() <= machine.now_ms()
    clock.advance(1.5)
    assert clock.now_ms() >= before + 1_500
    assert since + 1_500 <= clock.monotonic_ms() <= machine.monotonic_ms() + 1_500
    assert len(moves) == 1 and moves[0] >= before + 1_500


def test_time_does_not_go_back() -> None:
    with pytest.raises(ValueError, match="advance by -1 s"):
        MovableClock().advance(-1)


def test_the_wall_clock_can_be_set_wrong_and_no_time_passes_by_it() -> None:
    moves: list[int] = []
    clock, machine = MovableClock(lambda: moves.append(1)), SystemClock()
    wall, monotonic = machine.now_ms(), machine.monotonic_ms()
    clock.shift_wall(-3_600)
    assert wall - 3_600_000 <= clock.now_ms() < wall
    assert monotonic <= clock.monotonic_ms() <= machine.monotonic_ms()
    assert moves == [1]
    with pytest.raises(IllegalType, match="seconds 'an hour'"):
        clock.shift_wall("an hour")  # type: ignore[arg-type]  # what is refused
