import tracemalloc

from cometmq.broker.state.rates import Rate, Rates, sum_text
from cometmq.io.clock import ManualClock


def test_an_average_is_over_as_much_as_there_is() -> None:
    rate = Rate()
    assert rate.per_second() == (0.0, 0.0, 0.0)
    for second in range(21):
        rate.total = second * 5
        rate.sample(second * 1000)
    assert rate.per_second() == (5.0, 5.0, 5.0)
    for second in range(21, 31):
        rate.sample(second * 1000)
    assert rate.per_second()[0] == 0.0
    assert 0 < rate.per_second()[1] < 5


def test_only_the_latest_samples_count() -> None:
    rate = Rate()
    for second in range(2000):
        rate.total += 7 if second < 1300 else 1
        rate.sample(second * 1000)
    assert rate.per_second() == (1.0, 1.0, 1.0)


def test_samples_take_no_more_room_than_at_the_start() -> None:
    rate = Rate()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for second in range(700):
        rate.sample(second * 1000)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 1000


def test_the_text_is_what_operators_tools_split() -> None:
    rate, other = Rate(), Rate()
    for second in range(3):
        rate.total += 2
        other.total += 1
        rate.sample(second * 1000)
        other.sample(second * 1000)
    assert rate.text() == "2.0 2.0 2.0"
    assert sum_text(rate, other) == "3.0 3.0 3.0"


def test_all_counts_are_sampled_together() -> None:
    clock = ManualClock()
    rates = Rates(clock)
    for _ in range(2):
        rates.stored.total += 1
        rates.delivered.total += 3
        rates.sample()
        clock.advance(1000)
    assert rates.stored.per_second()[0] == 1.0 and rates.delivered.per_second()[0] == 3.0


def test_at_midnight_the_totals_are_noted_as_those_of_the_morning() -> None:
    clock = ManualClock()
    rates = Rates(clock)
    for morning in range(3):
        rates.stored.total += 10
        rates.sample()
        assert rates.stored.this_morning == 10 * morning
        assert rates.stored.yesterday_morning == 10 * max(morning - 1, 0)
        clock.advance(24 * 3600 * 1000)
        rates.sample()
        rates.sample()
    assert rates.delivered.this_morning == 0
