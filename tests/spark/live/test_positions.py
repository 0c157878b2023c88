import pytest

from cometmq.errors import SettingsError
from cometmq.message import MessageQueue
from cometmq.spark.live.offsets import EACH_BROKER
from cometmq.spark.live.options import parse
from cometmq.spark.live.positions import At, ByTime, Committed, Earliest, Latest, Position, Since, Until

LEAST = {"namesrv": "127.0.0.1:9876", "subscribe": "orders"}
FIRST = MessageQueue("orders", "broker-a", 0)


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("Earliest", Earliest()),
        ("LATEST", Latest()),
        ("group:lake", Committed("lake")),
        ('{"orders": {"broker-a": {"0": -2}}}', At({FIRST: -2})),
    ],
)
def test_a_position_is_a_word_a_group_or_offsets(text: str, position: Position) -> None:
    parsed = parse(LEAST | {"startingOffsets": text, "endingOffsets": text})
    assert parsed.start == parsed.end == position


def test_anything_else_is_refused() -> None:
    with pytest.raises(
        SettingsError, match="option endingOffsets first: give earliest, latest, group:NAME, or"
    ):
        parse(LEAST | {"endingOffsets": "first"})


def test_one_time_may_hold_for_all_queues() -> None:
    parsed = parse(LEAST | {"startingTimestamp": "5", "endingTimestamp": "6"})
    assert (parsed.start, parsed.end) == (Since(5), Until(6))


def test_each_queue_may_have_times_of_its_own() -> None:
    start = {"startingOffsetsByTimestamp": '{"orders": {"0": 5}}'}
    times = {FIRST._replace(broker_name=EACH_BROKER): 5}
    parsed = parse(LEAST | start | {"endingOffsetsByTimestamp": '{"orders": {"broker-a": {"0": 6}}}'})
    assert parsed.start == ByTime(times, needs_message=True)
    assert parsed.end == ByTime({FIRST: 6})
    latest = {"startingOffsetsByTimestampStrategy": "Latest"}
    assert parse(LEAST | start | latest).start == ByTime(times)
    since = {"startingTimestamp": "5"}
    assert parse(LEAST | since).start == parse(LEAST | since | latest).start == Since(5)
    error = {"startingOffsetsByTimestampStrategy": "error"}
    assert parse(LEAST | since | error).start == Since(5, needs_message=True)
