from tests.kit.reports import FOUR_HOURS, HOUR, report, topic_report, volume

from cometmq.spark.jobs.report.buckets import HOUR_MS, NO_BUCKETS
from cometmq.spark.jobs.report.charts import (
    CHARTED_MAX,
    QUEUE_CHARTS_MAX,
    QUEUES_MAX,
    SPARKLINES_MAX,
    QueueSeries,
    Series,
    charts,
)
from cometmq.spark.jobs.report.hot import HotQueue
from cometmq.spark.jobs.report.report import Report


def test_queues_are_taken_together_and_topics_too() -> None:
    volumes = [
        volume(hour=0, messages=5, p99=30),
        volume(hour=0, queue_id=1, messages=1, p99=40),
        volume(hour=3, messages=7, p99=-2),
        volume("late", hour=3, messages=10, p99=9),
    ]
    drawn = charts(report(volumes, [topic_report("late"), topic_report()]))
    assert drawn.buckets == FOUR_HOURS
    assert drawn.total == Series([6, 0, 0, 17], [600, 0, 0, 1_700], [40, None, None, 9])
    assert drawn.topics == [
        Series([0, 0, 0, 10], [0, 0, 0, 1_000], [None, None, None, 9]),
        Series([6, 0, 0, 7], [600, 0, 0, 700], [40, None, None, -2]),
    ]
    assert drawn.queues == [] and drawn.left_out == 0


def test_messages_of_a_time_that_cannot_be_are_left_out_and_counted() -> None:
    volumes = [volume(), volume(hour=-HOUR // HOUR_MS, messages=3), volume(hour=2**42, messages=4)]
    drawn = charts(report(volumes, [topic_report()]))
    assert (drawn.total.messages, drawn.left_out) == ([2, 0, 0, 0], 7)
    drawn = charts(report(volumes, [topic_report()], NO_BUCKETS))
    assert (drawn.total, drawn.left_out) == (Series([], [], []), 9)


def test_of_many_topics_the_first_have_charts_and_more_have_sparklines() -> None:
    names = [f"t{number}" for number in range(SPARKLINES_MAX + 1)]
    drawn = charts(report([volume(name) for name in names], [topic_report(name) for name in names]))
    assert len(drawn.topics) == SPARKLINES_MAX
    assert [one.bytes is not None for one in drawn.topics].count(True) == CHARTED_MAX
    assert drawn.topics[-1] == Series([2, 0, 0, 0])


def test_queues_of_a_topic_with_a_hot_one_are_charted_those_without_messages_among_them() -> None:
    hot = topic_report("orders", HotQueue("a/store", 2, 500, 1.0, 5))
    volumes = [volume(queue_id=2, messages=500), volume(hour=1, queue_id=0, messages=4)]
    drawn = charts(report([*volumes, volume("even")], [hot, topic_report("even")]))
    assert drawn.queues == [QueueSeries("orders", "a/store", [0, 1, 2, 3, 4], [4, 0, 500, 0, 0], [2], 0)]


def test_of_very_many_stores_those_with_the_hottest_queues_are_charted() -> None:
    stores = [f"{number}/store" for number in range(QUEUE_CHARTS_MAX + 2)]
    hot = topic_report("orders", *(HotQueue(store, 0, 500, 1.0, 2) for store in stores))
    found = Report(stores, [volume()], [hot], buckets=FOUR_HOURS)
    assert [queues.store for queues in charts(found).queues] == stores[:QUEUE_CHARTS_MAX]


def test_of_very_many_queues_the_fullest_are_charted() -> None:
    count = QUEUES_MAX + 5
    hot = topic_report("orders", HotQueue("a/store", count, 1_000, 1.0, count))
    volumes = [volume(queue_id=queue_id, messages=queue_id) for queue_id in range(1, count + 1)]
    (series,) = charts(report(volumes, [hot])).queues
    assert series.ids == list(range(count - QUEUES_MAX + 1, count + 1))
    assert series.messages == series.ids and series.hot == [count]
    assert series.left_out == 1 + 5  # that with the id 0 has no messages
