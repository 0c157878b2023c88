from cometmq.access.failures import ADDRESSES_MAX, WINDOW_MS, Failures


class Time:
    def __init__(self) -> None:
        self.now_ms = 7

    def __call__(self) -> int:
        return self.now_ms


def test_an_address_with_too_many_failures_is_suspect_until_the_window_ends() -> None:
    time = Time()
    failures = Failures(2, time)
    for _ in range(2):
        failures.add("192.0.2.1")
    assert not failures.is_suspect("192.0.2.1")
    failures.add("192.0.2.1")
    time.now_ms += WINDOW_MS - 1
    assert failures.is_suspect("192.0.2.1")
    assert not failures.is_suspect("192.0.2.2")
    time.now_ms += 1
    assert not failures.is_suspect("192.0.2.1")


def test_a_new_window_counts_from_zero() -> None:
    time = Time()
    failures = Failures(1, time)
    for _ in range(3):
        failures.add("192.0.2.1")
        time.now_ms += WINDOW_MS
        assert not failures.is_suspect("192.0.2.1")


def test_a_limit_of_zero_is_none() -> None:
    failures = Failures(0, Time())
    failures.add("192.0.2.1")
    assert not failures.is_suspect("192.0.2.1")


def test_no_number_of_addresses_takes_more_memory() -> None:
    failures = Failures(1, Time())
    for number in range(ADDRESSES_MAX + 10):
        failures.add(f"2001:db8::{number:x}")
        failures.is_suspect(f"2001:db8:1::{number:x}")
    assert len(failures._counts) <= ADDRESSES_MAX
