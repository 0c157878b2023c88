import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from tests.live import in_thread
from tests.spark.live.conftest import Topics, plain, queue

from cometmq.errors import SettingsError
from cometmq.message import MessageQueue
from cometmq.spark.live import times
from cometmq.spark.live.batch import LiveReader
from cometmq.spark.live.offsets import EACH_BROKER
from cometmq.spark.live.stream import LiveStreamReader
from cometmq.testing.clock import MovableClock

OPTION = "startingOffsetsByTimestamp"
FIRST, SECOND = queue("timed", 0), queue("timed", 1)
A_WHILE_S = 100.0


class Timed(NamedTuple):
    """A topic whose messages were stored at known times, ms since the epoch.

    Attributes:
        begin: before the first message of queue 0, the only one so early.
        middle: behind it, and before 4 more in queue 0 and 3 in queue 1.
        end: behind them all.
    """

    topics: Topics
    begin: int
    middle: int
    end: int


@pytest.fixture(scope="module")
def timed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Timed]:
    clock = MovableClock()
    with in_thread(tmp_path_factory.mktemp("timed"), clock=clock) as live:
        topics = Topics(live.name_server)
        topics.create("timed")
        moments: list[int] = []
        for counts in ((1, 0), (4, 3)):
            clock.advance(A_WHILE_S)
            moments.append(clock.now_ms())
            for queue_id, count in enumerate(counts):
                if count:
                    topics.send("timed", [b"%d" % number for number in range(count)], queue_id)
        clock.advance(A_WHILE_S)
        begin, middle = moments
        yield Timed(topics, begin, middle, clock.now_ms())


def planned(timed: Timed, **options: Any) -> dict[MessageQueue, tuple[int, int]]:
    """Return what a batch reads of each queue."""
    written = {
        name: value if isinstance(value, str) else json.dumps(value) for name, value in options.items()
    }
    reader = LiveReader(timed.topics.options(subscribe="timed", **written), ("body",))
    return {one.queue: (one.start, one.end) for part in reader.partitions() for one in part.value}


def test_a_time_is_that_of_a_queue_of_one_broker_or_of_each() -> None:
    assert times.read(OPTION, {"t": {"0": 5, "1": "1970-01-01T00:00:01Z"}}) == {
        MessageQueue("t", EACH_BROKER, 0): 5,
        MessageQueue("t", EACH_BROKER, 1): 1_000,
    }
    assert times.read(OPTION, {"t": {"b": {"0": "5"}}}) == {MessageQueue("t", "b", 0): 5}


@pytest.mark.parametrize(
    "tree",
    [[], {}, {"t": 5}, {"t": {"b": 5}}, {"t": {"0": None}}, {"t": {"0": True}}, {"t": {"b": {"x": 5}}}],
)
def test_what_is_no_time_of_a_queue_is_refused_with_an_example(tree: object) -> None:
    with pytest.raises(SettingsError, match=f"option {OPTION}: .*write times by topic and queue, as"):
        times.read(OPTION, tree)


def test_a_time_that_is_none_is_refused() -> None:
    with pytest.raises(SettingsError, match=f"option {OPTION} -5: give ms since the epoch"):
        times.read(OPTION, {"t": {"0": -5}})


def test_the_same_number_means_a_queue_of_each_broker_and_a_named_broker_counts_more() -> None:
    given = {MessageQueue("t", "a", 0): 7, MessageQueue("t", EACH_BROKER, 0): 5}
    queues = [MessageQueue("t", broker, 0) for broker in "ab"]
    assert times.of_queues(given, queues, OPTION) == {queues[0]: 7, queues[1]: 5}


def test_each_queue_needs_a_time_and_each_time_a_queue() -> None:
    given = {
        MessageQueue("t", broker, number): 5
        for broker, number in [("c", 0), (EACH_BROKER, 0), (EACH_BROKER, 9)]
    }
    wrong = re.escape("t b 1 is left out; t 9 is not there; t c 0 is not there")
    with pytest.raises(SettingsError, match=f"option {OPTION} must name each queue .*: {wrong}"):
        times.of_queues(given, [MessageQueue("t", "b", number) for number in range(2)], OPTION)


def test_each_queue_is_read_from_and_to_its_own_time(timed: Timed) -> None:
    start = {"timed": {"0": timed.begin, "1": timed.begin}}
    assert planned(timed, startingOffsetsByTimestamp=start) == {FIRST: (0, 5), SECOND: (0, 3)}
    start["timed"]["0"] = timed.begin + 50_000
    assert planned(timed, startingOffsetsByTimestamp=start) == {FIRST: (1, 5), SECOND: (0, 3)}
    end = {"timed": {"broker-a": {"0": timed.middle, "1": timed.end}}}
    assert planned(timed, endingOffsetsByTimestamp=end) == {FIRST: (0, 1), SECOND: (0, 3)}
    with pytest.raises(SettingsError, match="queue 0 is to be read up to offset 0, before its start at 1"):
        planned(
            timed,
            startingOffsetsByTimestamp=start,
            endingOffsetsByTimestamp={"timed": {"0": timed.begin, "1": timed.end}},
        )


def test_a_time_behind_the_last_message_is_an_error_that_names_the_remedy_or_the_end(timed: Timed) -> None:
    late = {"startingOffsetsByTimestamp": {"timed": {"0": timed.middle, "1": timed.end}}}
    answer = (
        f"option startingOffsetsByTimestamp: no message was stored so late: timed broker-a 1: {timed.end} is "
        "asked for, it ends at offset 3: give an earlier time, or startingOffsetsByTimestampStrategy latest"
    )
    with pytest.raises(SettingsError, match=answer):
        planned(timed, **late)
    assert planned(timed, **late, startingOffsetsByTimestampStrategy="latest") == {FIRST: (1, 5)}


def test_the_strategy_holds_for_one_time_of_all_queues_where_it_is_given(timed: Timed) -> None:
    late = {"startingTimestamp": str(timed.end)}
    with pytest.raises(
        SettingsError, match=r"option startingTimestamp: no message .*timed broker-a 0: .*1: "
    ):
        planned(timed, **late, startingOffsetsByTimestampStrategy="error")
    found = planned(timed, startingTimestamp=str(timed.middle), startingOffsetsByTimestampStrategy="error")
    assert found.keys() == {FIRST, SECOND}


def test_a_stream_begins_by_time_too(timed: Timed) -> None:
    start = json.dumps({"timed": {"0": timed.middle, "1": timed.end}})
    options = {"startingOffsetsByTimestamp": start, "startingOffsetsByTimestampStrategy": "latest"}
    reader = LiveStreamReader(timed.topics.options(subscribe="timed", **options), ("body",))
    try:
        assert plain(reader.initialOffset()) == {"timed": {"broker-a": {"0": 1, "1": 3}}}
    finally:
        reader.stop()


def test_a_broker_that_gives_the_nearest_message_is_corrected(
    timed: Timed, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nearest(_: object, queue: MessageQueue, __: int) -> int:  # as brokers before 5.0 do
        return {FIRST: 0, SECOND: 2}[queue]

    monkeypatch.setattr("cometmq.client.requests.queue_requests.QueueRequests.offset_by_time", nearest)
    start = {"timed": {"0": timed.begin + 50_000, "1": timed.end}}
    found = planned(timed, startingOffsetsByTimestamp=start, startingOffsetsByTimestampStrategy="latest")
    assert found == {FIRST: (1, 5)}
