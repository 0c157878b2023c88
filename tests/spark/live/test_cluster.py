import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.live import in_thread
from tests.spark.live.conftest import Topics, counted, queue

from cometmq import blocking
from cometmq.admin import groups
from cometmq.admin.cluster import ClusterAdmin
from cometmq.broker.refused import Refused
from cometmq.broker.requests.positions import Positions
from cometmq.errors import NetworkError, RemoteError, SettingsError
from cometmq.net.address import free_port
from cometmq.spark.live.cluster import Cluster
from cometmq.spark.live.first_messages import UNKNOWN, FirstMessage
from cometmq.spark.live.options import LiveOptions, parse
from cometmq.spark.live.positions import At, Committed, Earliest, Latest, Since, Until
from cometmq.spark.live.ranges import QueueRange
from cometmq.wire.bodies import GroupConfig
from cometmq.wire.codes import RequestCode, ResponseCode

PAID, NEW = queue("orders", 0), queue("orders", 1)


@pytest.fixture
def cluster(orders: Topics) -> Iterator[Cluster]:
    with Cluster(orders.options(subscribe="orders", group="committers")) as cluster:
        yield cluster


def queues_of(options: LiveOptions) -> set[tuple[str, int]]:
    with Cluster(options) as cluster:
        return {(found.topic, found.queue_id) for found in cluster.queues()}


def test_topics_queues_and_patterns_are_found(orders: Topics) -> None:
    assert queues_of(orders.options(subscribe="orders,nothing")) == {("orders", 0), ("orders", 1)}
    assert queues_of(orders.options(assign='{"orders": {"broker-a": [1, 7]}}')) == {("orders", 1)}
    assert queues_of(orders.options(subscribePattern="order.")) == {("orders", 0), ("orders", 1)}
    assert queues_of(orders.options(subscribePattern="order")) == set()


def test_positions_are_resolved(cluster: Cluster) -> None:
    queues = [PAID, NEW]
    assert cluster.resolve(Earliest(), queues, "") == {PAID: 0, NEW: 0}
    assert cluster.resolve(Latest(), queues, "") == {PAID: 100, NEW: 40}
    assert cluster.resolve(Since(0), queues, "") == {PAID: 0, NEW: 0}
    assert cluster.resolve(Until(2**40 * 10), queues, "") == {PAID: 100, NEW: 40}
    assert cluster.resolve(Until(2**63 - 1), queues, "") == {PAID: 100, NEW: 40}
    assert cluster.resolve(At({PAID: -1, NEW: 7}), queues, "") == {PAID: 100, NEW: 7}


def test_the_ends_of_queues_are_asked_for_together(scattered: Topics) -> None:
    queues = [queue("scattered", number) for number in range(60)]
    options = scattered.options(subscribe="scattered")
    with Cluster(options, at_one_time=True) as cluster, counted() as traffic:
        for position in (Earliest(), Latest(), Since(0), Until(2**40)):
            cluster.resolve(position, queues, "")
    assert traffic.requests.pop(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP) == 2 * 60
    assert traffic.requests == {RequestCode.GET_ROUTEINFO_BY_TOPIC: 1, RequestCode.GET_TOPIC_STATS_INFO: 1}


def test_offsets_must_be_given_for_the_queues_that_are_read(cluster: Cluster) -> None:
    answer = "must name each queue that is read, and no other: orders broker-a 1 is left out"
    with pytest.raises(SettingsError, match=answer):
        cluster.resolve(At({PAID: 1}), [PAID, NEW], "startingOffsets")


def test_a_group_is_where_it_has_committed_or_at_the_beginning(cluster: Cluster, orders: Topics) -> None:
    cluster.commit({PAID: 17})
    assert cluster.resolve(Committed("committers"), [PAID, NEW], "") == {PAID: 17, NEW: 0}
    with blocking.PullConsumer(orders.name_server, "committers") as consumer:
        assert consumer.committed(PAID) == 17


def test_sizes_of_records_are_judged_by_samples(cluster: Cluster) -> None:
    with counted() as traffic:
        sizes = cluster.record_sizes(
            [QueueRange(PAID, 0, 100), QueueRange(NEW, 40, 40), QueueRange(NEW, 8, 40)]
        )
    assert sizes.keys() == {PAID, NEW} and all(150 < size < 300 for size in sizes.values())
    assert traffic.requests[RequestCode.QUERY_CONSUME_QUEUE] == 3, "at two places where there are many"
    assert not traffic.requests[RequestCode.PULL_MESSAGE]


def test_where_entries_are_not_listed_samples_are_pulled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise Refused(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "not here")

    monkeypatch.setattr(Positions, "entries", refuse)
    with in_thread(tmp_path) as live:
        topics = Topics(live.name_server)
        topics.create("plain", queues=1)
        topics.send("plain", [bytes(1_000)] * 3)
        with Cluster(topics.options(subscribe="plain", retrySeconds="600")) as cluster:
            assert 1_100 < cluster.record_sizes([QueueRange(queue("plain"), 0, 3)])[queue("plain")] < 1_300


def test_a_pull_of_each_topic_and_broker_shows_what_brokers_refuse(orders: Topics) -> None:
    async def bar() -> None:
        async with ClusterAdmin(orders.name_server) as admin:
            await groups.create(admin, GroupConfig(group="barred", consume_enable=False))

    asyncio.run(bar())
    some = [QueueRange(PAID, 3, 5), QueueRange(NEW, 8, 9)]
    options = orders.options(subscribe="orders", group="barred", retrySeconds="600")
    said = (
        "code 16: topic orders, broker broker-a, queue 0, offset 3: a pull for group barred: "
        "subscription group [barred] may not consume"
    )
    with Cluster(options) as cluster, counted() as traffic:
        with pytest.raises(RemoteError) as raised:
            cluster.check_pulls(some)
        assert str(raised.value) == said
    assert traffic.requests[RequestCode.PULL_MESSAGE] == 1
    with Cluster(orders.options(subscribe="orders")) as cluster, counted() as traffic:
        for _ in range(2):
            cluster.check_pulls(some)
    assert traffic.requests[RequestCode.PULL_MESSAGE] == 1


def test_each_offset_is_committed_though_one_is_refused(orders: Topics) -> None:
    with Cluster(orders.options(subscribe="orders", group="most", retrySeconds="600")) as cluster:
        with pytest.raises(RemoteError, match="topic orders has no queue 9"):
            cluster.commit({queue("orders", 9): 1, PAID: 5, NEW: 6})
        assert cluster.resolve(Committed("most"), [PAID, NEW], "") == {PAID: 5, NEW: 6}


def test_the_first_message_of_a_queue_is_found(cluster: Cluster, topics: Topics) -> None:
    topics.create("empty", queues=1)
    expected = {PAID: FirstMessage(0, 0, UNKNOWN), queue("empty"): FirstMessage(0, 0, UNKNOWN)}
    found = cluster.first_messages(expected)
    first = found[PAID]
    assert first is not None and (first.queue_id, first.queue_offset) == (0, 0) and first.store_time
    assert found[queue("empty")] is None
    with counted() as traffic:
        assert cluster.first_messages({PAID: first}) == {PAID: first}
    assert traffic.total == 1, "it was to be expected"
    assert cluster.first_messages({PAID: FirstMessage(0, 7, UNKNOWN)}) == {PAID: None}


def test_a_name_server_that_is_away_is_named() -> None:
    address = f"127.0.0.1:{free_port()}"
    options = parse({"namesrv": address, "subscribe": "orders", "retrySeconds": "1"})
    with Cluster(options) as cluster, pytest.raises(NetworkError, match=re.escape(address)):
        cluster.queues()
