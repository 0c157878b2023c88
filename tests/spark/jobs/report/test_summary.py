from tests.kit.reports import FOUR_HOURS, HOUR, topic_report, volume

from cometmq.spark.jobs.report.buckets import HOUR_MS, SECOND_MS, Buckets
from cometmq.spark.jobs.report.lags import Lag
from cometmq.spark.jobs.report.report import Report, TopicReport
from cometmq.spark.jobs.report.summary import StoreTotal, tiles, totals


def sized(topic: TopicReport, messages: int, size: int) -> TopicReport:
    fields = {name: getattr(topic, name) for name in topic.__struct_fields__}
    return TopicReport(**fields | {"messages": messages, "bytes": size})


def test_there_are_totals_and_rates_and_the_longest_lag() -> None:
    found = Report(
        ["a/store"],
        [volume(messages=3_600), volume("late", hour=3, messages=36_000)],
        [sized(topic_report(), 3_600, 1 << 20), sized(topic_report("late"), 36_000, 3 << 20)],
        [Lag("a/store", "shop", "orders", 5), Lag("a/store", "<late>", "orders", 17)],
        HOUR,
        HOUR + 4 * HOUR_MS,
        FOUR_HOURS,
    )
    assert [tuple(tile) for tile in tiles(found, [3_600, 0, 0, 36_000])] == [
        ("Messages", "39,600", "of 2 topics<br>in 2 queues"),
        ("Log", "4 MiB", "106 B a message"),
        ("Time", "4 h", "<time>2026-01-31 09:00</time><br>to <time>2026-01-31 13:00</time>"),
        ("Average rate", "2.8/s", "291 B/s of log"),
        ("Peak rate", "10/s", "in 1 h from<br><time>2026-01-31 12:00</time>"),
        ("Longest lag", "17", "of &lt;<wbr>late&gt; on orders"),
    ]


def test_a_moment_has_no_rate() -> None:
    found = Report(["a"], [volume()], [topic_report()], [], HOUR, HOUR, Buckets(HOUR, 1, 24))
    assert [tile.label for tile in tiles(found, [1, *[0] * 23])] == ["Messages", "Log", "Time"]


def test_a_store_without_a_time_that_can_be_has_neither_span_nor_rate() -> None:
    assert [tile.label for tile in tiles(Report(["a"], [volume()], [topic_report()]), [])] == [
        "Messages",
        "Log",
    ]


def test_seconds_are_written_where_buckets_are_shorter_than_a_minute() -> None:
    split = Buckets(HOUR, 10 * SECOND_MS, 24)
    found = Report(["a"], [volume()], [topic_report()], [], HOUR, HOUR + 239 * SECOND_MS, split)
    assert "09:03:59" in tiles(found, [1, *[0] * 23])[2].note


def test_each_store_is_counted_by_itself_and_an_empty_one_too() -> None:
    volumes = [volume(messages=3), volume("late", messages=4)]
    assert totals(Report(["a/store", "b/store"], volumes, [])) == [
        StoreTotal("a/store", 2, 7, 700),
        StoreTotal("b/store", 0, 0, 0),
    ]
