import pytest

from cometmq.admin.doctor.brokers import Registered, _advertised, _clock, _state, clock_of, same_addresses
from cometmq.admin.doctor.findings import Level
from cometmq.errors import FormatError

BROKER = Registered("broker-a", 0, "192.0.2.1:10911", "192.0.2.9:9876")
SECOND_MS = 1_000
NOW_MS = 1_700_000_000_000
JAVA = {"bootTimestamp": str(NOW_MS - 93_784_000), "runtime": "[ 1 days, 2 hours, 3 minutes, 4 seconds ]"}


def test_a_java_brokers_time_is_known_to_the_second() -> None:
    assert clock_of(JAVA) == (NOW_MS, NOW_MS + 999)
    assert clock_of(JAVA | {"nowTimestamp": "7"}) == (7, 7)


@pytest.mark.parametrize("info", [{}, {"bootTimestamp": "1"}, JAVA | {"runtime": "[ one day ]"}])
def test_a_broker_without_its_time_is_not_judged_by_it(info: dict[str, str]) -> None:
    assert clock_of(info) is None
    assert _clock(BROKER, info, 0, 0).level is Level.OK


@pytest.mark.parametrize(
    ("ahead_ms", "level", "word"),
    [
        (900, Level.OK, "agrees"),
        (4_000, Level.WARNING, "ahead"),
        (60_000, Level.FAULT, "60.0 s ahead"),
        (-900, Level.OK, "agrees"),
        (-4_000, Level.WARNING, "behind"),
        (-60_999, Level.FAULT, "60.0 s behind"),
    ],
)
def test_only_a_certain_difference_of_clocks_counts(ahead_ms: int, level: Level, word: str) -> None:
    found = _clock(BROKER, JAVA, NOW_MS - ahead_ms, NOW_MS - ahead_ms)
    assert found.level is level and word in found.text
    assert bool(found.remedy) is (level is not Level.OK)


def test_an_address_that_is_none_is_a_fault_of_its_broker() -> None:
    found = _advertised(BROKER._replace(address="fd00::1:10911"))
    assert found is not None and found.level is Level.FAULT and "brokerIP1" in found.remedy
    assert _advertised(BROKER) is None


def test_brokers_that_advertise_one_address_are_named() -> None:
    other = BROKER._replace(name="broker-b")
    (found,) = same_addresses([BROKER, other, BROKER._replace(address="192.0.2.3:10911")])
    assert "broker-a, broker-b" in found.text and "brokerIP1" in found.remedy


@pytest.mark.parametrize(
    ("info", "check", "level"),
    [
        ({"commitLogDiskRatio": "0.76"}, "disk", Level.WARNING),
        ({"commitLogDiskRatio": "0.95"}, "disk", Level.FAULT),
        ({"storeFailedWrites": "offsets: No space left"}, "store", Level.FAULT),
        ({"connectionCountMax": "10", "connectionCount": "9"}, "descriptors", Level.WARNING),
        ({"kernels": "plain: numba is not installed"}, "kernels", Level.WARNING),
        ({"insecure": "insecure: whoever reaches it. Require signatures"}, "access", Level.WARNING),
        ({"subscriptionDifferences": "group g: a, b"}, "groups", Level.FAULT),
    ],
)
def test_what_a_broker_says_of_itself_is_judged(info: dict[str, str], check: str, level: Level) -> None:
    (found,) = [one for one in _state(BROKER, info) if one.level is not Level.OK]
    assert (found.check, found.level) == (check, level) and found.remedy


def test_of_a_java_broker_only_its_disk_is_known() -> None:
    assert [one.check for one in _state(BROKER, {"commitLogDiskRatio": "0.5"})] == ["disk"]


def test_a_number_that_is_none_is_no_answer_to_be_read() -> None:
    for info in ({"commitLogDiskRatio": "much"}, {"connectionCountMax": "9" * 5_000}):
        with pytest.raises(FormatError, match="in its runtime info is no number"):
            _state(BROKER, info)
    assert clock_of({"nowTimestamp": "9" * 5_000}) is None
