import re
from collections.abc import Iterator

import pytest
from tests.spark.live.conftest import Topics, queue

from cometmq import blocking
from cometmq.errors import NetworkError, SettingsError
from cometmq.net.address import free_port
from cometmq.spark.live.cluster import Cluster
from cometmq.spark.live.options import At, Committed, Earliest, Latest, LiveOptions, Since, Until, parse
from cometmq.spark.live.ranges import Range

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
    sizes = cluster.record_sizes([Range(PAID, 0, 100), Range(NEW, 40, 40)])
    assert sizes.keys() == {PAID} and 150 < sizes[PAID] < 300


def test_a_name_server_that_is_away_is_named() -> None:
    address = f"127.0.0.1:{free_port()}"
    options = parse({"namesrv": address, "subscribe": "orders", "retrySeconds": "1"})
    with Cluster(options) as cluster, pytest.raises(NetworkError, match=re.escape(address)):
        cluster.queues()
