import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import EqualTo, GreaterThanOrEqual
from tests.spark.live.conftest import Topics, counted, queue

from cometmq.errors import NoRoute, RemoteError, SettingsError, StoreDamaged
from cometmq.spark.live import batch
from cometmq.spark.live.batch import FilteringReader, LiveReader, available
from cometmq.spark.live.cluster import Cluster
from cometmq.spark.live.options import LiveOptions
from cometmq.spark.live.ranges import QueueRange
from cometmq.wire.codes import RequestCode

PAID, NEW = queue("orders", 0), queue("orders", 1)


def planned(options: LiveOptions) -> list[list[QueueRange]]:
    return [partition.value for partition in LiveReader(options, ("body",)).partitions()]


def bodies(reader: LiveReader) -> list[bytes]:
    batches = [one for partition in reader.partitions() for one in reader.read(partition)]
    return [row["body"] for one in batches for row in one.to_pylist()]


def test_a_read_of_everything_is_one_task_when_it_is_small(orders: Topics) -> None:
    assert planned(orders.options(subscribe="orders")) == [[QueueRange(PAID, 0, 100), QueueRange(NEW, 0, 40)]]


@pytest.mark.parametrize(
    ("limits", "sizes"),
    [
        ({"minPartitions": "4"}, [35, 35, 35, 35]),
        ({"maxRecordsPerPartition": "60"}, [60, 60, 20]),
        ({"maxRecordsPerPartition": "60", "limit": "5"}, [140]),
    ],
)
def test_tasks_are_as_many_and_as_large_as_asked_for(
    orders: Topics, limits: dict[str, str], sizes: list[int]
) -> None:
    parts = planned(orders.options(subscribe="orders", **limits))
    assert [sum(one.size for one in part) for part in parts] == sizes


@pytest.mark.parametrize(("most", "sizes"), [(140, [140]), (139, [70, 70]), (60, [35] * 4), (35, [35] * 4)])
def test_tasks_of_which_nothing_is_asked_are_equal_for_any_even_number_of_cores(
    orders: Topics, monkeypatch: pytest.MonkeyPatch, most: int, sizes: list[int]
) -> None:
    monkeypatch.setattr(batch, "RECORDS_PER_PARTITION_MAX", most)
    parts = planned(orders.options(subscribe="orders"))
    assert [sum(one.size for one in part) for part in parts] == sizes


def test_queues_with_little_go_together_into_one_task(scattered: Topics) -> None:
    with counted() as traffic:
        (part,) = planned(scattered.options(subscribe="scattered"))
    assert [one.size for one in part] == [1] * 20
    assert traffic.requests == {
        RequestCode.GET_ROUTEINFO_BY_TOPIC: 1,
        RequestCode.GET_TOPIC_STATS_INFO: 1,
        RequestCode.PULL_MESSAGE: 1,
    }
    parts = planned(scattered.options(subscribe="scattered", minPartitions="4"))
    assert [len(part) for part in parts] == [5] * 4


def test_what_brokers_refuse_ends_the_plan(orders: Topics) -> None:
    with counted() as traffic, pytest.raises(RemoteError, match=r"broker-a.* not support .* by SQL92: set"):
        planned(orders.options(subscribe="orders", sql="size > 3", retrySeconds="600"))
    assert traffic.requests[RequestCode.PULL_MESSAGE] == 1


def test_bytes_make_tasks_too(orders: Topics) -> None:
    parts = planned(orders.options(subscribe="orders", maxBytesPerPartition="4096"))
    assert 5 < len(parts) < 12


def test_a_read_is_between_two_positions(orders: Topics) -> None:
    ends = '{"orders": {"broker-a": {"0": 7, "1": -1}}}'
    options = orders.options(
        subscribe="orders", startingOffsets='{"orders": {"broker-a": {"0": 5, "1": 38}}}', endingOffsets=ends
    )
    assert bodies(LiveReader(options, ("body",))) == [b"paid 5", b"paid 6", b"new 38", b"new 39"]
    latest = orders.options(subscribe="orders", startingOffsets="latest")
    assert bodies(LiveReader(latest, ("body",))) == []
    by_time = orders.options(subscribe="orders", startingTimestamp="1000", endingTimestamp="2000")
    assert bodies(LiveReader(by_time, ("body",))) == []


def test_clauses_choose_what_is_pulled(orders: Topics) -> None:
    reader = FilteringReader(orders.options(subscribe="orders"), ("body",))
    clauses = [
        EqualTo(("tags",), "paid"),
        EqualTo(("queue_id",), 0),
        GreaterThanOrEqual(("queue_offset",), 98),
    ]
    assert reader.pushFilters([*clauses]) == []
    assert [part.value for part in reader.partitions()] == [[QueueRange(PAID, 98, 100)]]
    assert bodies(reader) == [b"paid 98", b"paid 99"]
    contradiction = FilteringReader(orders.options(subscribe="orders", tags="new"), ("body",))
    contradiction.pushFilters([EqualTo(("tags",), "paid")])
    assert contradiction.partitions() == []


def test_what_is_not_there_is_named(orders: Topics) -> None:
    with pytest.raises(NoRoute, match="no queue to read of nothing"):
        planned(orders.options(subscribe="orders,nothing"))
    with pytest.raises(NoRoute, match="queue_id=7"):
        planned(orders.options(assign='{"orders": {"broker-a": [7]}}'))
    assert planned(orders.options(subscribePattern="nothing")) == []


def test_offsets_that_brokers_do_not_have_are_lost(orders: Topics) -> None:
    only_new = {"assign": '{"orders": {"broker-a": [1]}}'}
    far = '{"orders": {"broker-a": {"1": 60}}}'
    with pytest.raises(StoreDamaged, match="queue 1, offsets 40 to 59"):
        planned(orders.options(**only_new, endingOffsets=far))
    patient = orders.options(**only_new, endingOffsets=far, failOnDataLoss="false")
    assert planned(patient) == [[QueueRange(NEW, 0, 40)]]
    with pytest.raises(SettingsError, match="queue 1 is to be read up to offset 5, before its start at 60"):
        planned(orders.options(**only_new, startingOffsets=far, endingOffsets=far.replace("60", "5")))


def test_all_that_a_queue_lost_is_named_though_a_micro_batch_reads_a_part(
    orders: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    expired = QueueRange(NEW, 3, 5)  # what the micro-batch was to read; the queue begins at 30 now
    options = orders.options(subscribe="orders")
    with Cluster(options) as cluster:
        extent = cluster.extents([NEW])[NEW]._replace(first=30)
        monkeypatch.setattr(cluster, "extents", lambda _: {NEW: extent})
        with pytest.raises(StoreDamaged, match="queue 1, offsets 3 to 29:"):
            available(options, cluster, [expired], is_part=True)
        with pytest.raises(StoreDamaged, match="queue 1, offsets 3 to 4:"):
            available(options, cluster, [expired])


@pytest.mark.parametrize("end", ["latest", '{"orders": {"broker-a": {"0": 5, "1": 70}}}'])
def test_a_start_behind_the_end_of_a_queue_is_an_error_that_names_both_and_the_remedy(
    orders: Topics, caplog: pytest.LogCaptureFixture, end: str
) -> None:
    far = '{"orders": {"broker-a": {"0": 3, "1": 60}}}'
    given = {"subscribe": "orders", "startingOffsets": far, "endingOffsets": end}
    with pytest.raises(SettingsError) as raised:
        planned(orders.options(**given))
    assert str(raised.value) == (
        "option startingOffsets: queues end before: topic orders, broker broker-a, queue 1: 60 is asked for, "
        "it begins at 0 and ends at 40: give offsets up to the end, -1 for the end or -2 for the "
        "beginning; with failOnDataLoss false nothing is read of them"
    )
    assert planned(orders.options(**given, failOnDataLoss="false"))[0][0].queue == PAID
    assert "queue 1: 60 is asked for, it begins at 0 and ends at 40: nothing is read of them" in caplog.text


def test_a_start_at_the_end_of_a_queue_gives_nothing_and_a_time_behind_it_neither(orders: Topics) -> None:
    ends = '{"orders": {"broker-a": {"0": 100, "1": 40}}}'
    assert planned(orders.options(subscribe="orders", startingOffsets=ends)) == []
    assert planned(orders.options(subscribe="orders", startingOffsets=ends, endingOffsets=ends)) == []
    assert planned(orders.options(subscribe="orders", startingTimestamp="2999-01-01T00:00:00Z")) == []


def test_what_a_group_has_committed_behind_the_end_of_a_queue_is_named(topics: Topics) -> None:
    topics.create("short", queues=1)
    with Cluster(topics.options(subscribe="short", group="ahead")) as cluster:
        cluster.commit({queue("short"): 9})
    options = topics.options(subscribe="short", startingOffsets="group:ahead")
    with pytest.raises(SettingsError, match=r"topic short, .* queue 0: 9 is asked for, .* ends at 0:"):
        planned(options)


PUSHES = "spark.sql.python.filterPushdown.enabled"


@pytest.mark.timeout(600)
def test_spark_pushes_its_clauses(
    spark: SparkSession, orders: Topics, capsys: pytest.CaptureFixture[str]
) -> None:
    reader = spark.read.format("rocketmq").options(namesrv=orders.name_server, subscribe="orders")
    frame = reader.option("minPartitions", "3").load()
    late = frame.where("tags = 'paid' AND queue_offset >= 97 AND store_time > '2020-01-01'").select("body")
    expected = [b"paid 97", b"paid 98", b"paid 99"]
    assert [bytes(row["body"]) for row in late.collect()] == expected
    late.explain()
    assert "= paid" not in capsys.readouterr().out  # Spark need not compare it again
    limited = reader.option("limit", "110").load().where("tags = 'new'")
    assert limited.count() == 10  # and not 40, of the first 110 that are new


@pytest.mark.timeout(600)
def test_clauses_that_spark_does_not_push_give_the_same(spark: SparkSession, orders: Topics) -> None:
    reader = spark.read.format("rocketmq").options(namesrv=orders.name_server, subscribe="orders")
    late = "tags = 'paid' AND queue_offset >= 97"
    spark.conf.set(PUSHES, "false")
    try:
        assert reader.load().where(late).count() == 3
        with pytest.raises(AnalysisException, match="DATA_SOURCE_PUSHDOWN_DISABLED"):
            reader.option("pushFilters", "true").load().where(late).count()
    finally:
        spark.conf.set(PUSHES, "true")
    assert reader.option("pushFilters", "false").load().where(late).count() == 3


def test_queues_may_be_assigned_for_each_broker(orders: Topics) -> None:
    assert planned(orders.options(assign='{"orders": [1]}')) == [[QueueRange(NEW, 0, 40)]]
    with pytest.raises(NoRoute, match="queue_id=7"):
        planned(orders.options(assign='{"orders": [0, 7]}'))
