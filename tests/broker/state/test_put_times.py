from cometmq.broker.state.put_times import CLASSES, LIMIT_MS, PutTimes
from cometmq.io.clock import ManualClock


def test_a_minute_of_times_is_told_when_it_is_over() -> None:
    clock = ManualClock()
    times = PutTimes(clock)
    for took_ms, count in ((0, 90), (10, 8), (11, 1), (700, 1)):
        begun = times.begin()
        clock.advance(took_ms)
        times.end(begun, count)
    times.sample()
    assert (times.within(0.99), times.longest_ms) == ("0.00", 700)
    clock.advance(60_000)
    times.sample()
    assert times.distribution().startswith("[<=0ms]:90 [0~10ms]:8 [10~50ms]:1 [50~100ms]:0 ")
    assert "[500ms~1s]:1 " in times.distribution()
    assert [times.within(share) for share in (0.5, 0.98, 0.99, 0.999)] == ["0.00", "10.00", "11.00", "700.00"]
    clock.advance(60_000)
    times.sample()
    assert times.distribution() == "".join(f"[{name}]:0 " for name in CLASSES)
    assert (times.within(0.999), times.longest_ms) == ("0.00", 700)


def test_what_takes_very_long_is_one_class() -> None:
    clock = ManualClock()
    times = PutTimes(clock)
    for took_ms in (LIMIT_MS, LIMIT_MS + 1, 10 * LIMIT_MS):
        begun = times.begin()
        clock.advance(took_ms)
        times.end(begun, 1)
    clock.advance(60_000)
    times.sample()
    assert times.distribution().endswith("[5~10s]:1 [10s~]:2 ")


def test_who_waits_for_the_disk_is_counted_when_he_is_answered() -> None:
    clock = ManualClock()
    times = PutTimes(clock)
    answered: list[str | None] = []
    answer = times.ending(times.begin(), 3, answered.append)
    clock.advance(40)
    assert (answered, times.longest_ms) == ([], 0)
    answer("late")
    assert (answered, times.longest_ms) == (["late"], 40)
