from collections.abc import Mapping
from pathlib import Path

from cometmq.format.delay_level import SCHEDULE_TOPIC
from cometmq.io.files import Disk
from cometmq.spark.jobs.report.hot import HOT_MIN, HotQueue, hot_queues, load_queue_counts


def found(counts: list[int], topic: str = "orders", known: int = 0) -> list[HotQueue]:
    messages = {("a", topic, queue_id): count for queue_id, count in enumerate(counts)}
    return hot_queues(messages, {("a", topic): known}).get(topic, [])


def test_a_queue_is_hot_with_three_times_as_many_messages_as_the_others_have_on_average() -> None:
    assert found([900, 300, 200, 400]) == [HotQueue("a", 0, 900, 300.0, 4)]
    assert found([899, 300, 200, 400]) == []
    assert found([100, 300]) == [HotQueue("a", 1, 300, 100.0, 2)]


def test_the_fullest_is_first() -> None:
    assert [queue.queue_id for queue in found([1, 400, 500, *[1] * 20])] == [2, 1]


def test_few_messages_make_no_queue_hot() -> None:
    assert found([HOT_MIN - 1, 0]) == []
    assert found([HOT_MIN, 0]) == [HotQueue("a", 0, HOT_MIN, 0.0, 2)]


def test_queues_without_messages_count_if_they_are_known() -> None:
    assert found([1_000]) == []
    assert found([1_000], known=8) == [HotQueue("a", 0, 1_000, 0.0, 8)]


def test_levels_of_delay_are_no_queues_that_could_be_hot() -> None:
    assert found([1_000, 1], SCHEDULE_TOPIC) == []


def test_each_store_is_judged_by_itself() -> None:
    messages = {("a", "T", 0): 900, ("a", "T", 1): 900, ("b", "T", 0): 300, ("b", "T", 1): 1}
    assert hot_queues(messages, {}) == {"T": [HotQueue("b", 0, 300, 1.0, 2)]}


def test_how_many_queues_a_topic_has_is_read_from_the_table_that_java_wrote(
    golden: Mapping[str, Path], tmp_path: Path
) -> None:
    assert load_queue_counts(Disk(), golden["store-clean"])["GoldenA"] == 4
    assert load_queue_counts(Disk(), tmp_path) == {}
