from cometmq.io.clock import ManualClock, SystemClock


def test_the_system_clock_gives_milliseconds_that_do_not_go_back() -> None:
    clock = SystemClock()
    assert clock.now_ms() > 1_700_000_000_000
    assert clock.monotonic_ms() <= clock.monotonic_ms()


def test_a_manual_clock_moves_both_clocks_only_when_told() -> None:
    clock = ManualClock(1_000)
    clock.advance(5)
    assert (clock.now_ms(), clock.monotonic_ms()) == (1_005, 5)


def test_turning_the_wall_clock_leaves_intervals_alone() -> None:
    clock = ManualClock(1_000)
    clock.set_wall(7)
    assert (clock.now_ms(), clock.monotonic_ms()) == (7, 0)
