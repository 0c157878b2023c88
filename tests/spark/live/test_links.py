"""Connections that a worker keeps from task to task, and an application does not."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.live import in_thread
from tests.spark.live.conftest import Topics, counted, queue

from cometmq.net.address import free_port
from cometmq.spark.live import links
from cometmq.spark.live.access import ClusterAccess
from cometmq.spark.live.cluster import Cluster
from cometmq.spark.live.links import LINKS, Link, Links
from cometmq.spark.live.positions import Latest
from cometmq.spark.live.ranges import QueueRange
from cometmq.spark.live.reading import read
from cometmq.wire.codes import RequestCode

WAIT_S = 60
ADDRESS = ClusterAccess(("127.0.0.1:1",))
FORKS = """
import os, sys
from cometmq.spark.live import links
from cometmq.spark.live.access import ClusterAccess
from cometmq.spark.live.links import LINKS
links.is_worker = lambda: True
servers = ClusterAccess((sys.argv[1],))
link = LINKS.acquire(servers)
assert link.run(link.routes.topics())
LINKS.release(link)
pid = os.fork()
mine = LINKS.acquire(servers)
assert mine.run(mine.routes.topics()) and (mine is link) == (pid > 0)
LINKS.release(mine)
LINKS.close_all()
if pid == 0:
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
link = LINKS.acquire(servers)
assert link.run(link.routes.topics())
link.close()
print("both")
"""


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Turn this process into a worker of Spark."""
    monkeypatch.setattr(links, "is_worker", lambda: True)
    yield
    LINKS.close_all()


def rows(topics: Topics, topic: str, end: int) -> int:
    """Run a task, and return how many rows it has read."""
    options = topics.options(subscribe=topic, retrySeconds="60")
    return sum(batch.num_rows for batch in read(options, ("body",), [QueueRange(queue(topic), 0, end)]))


@pytest.mark.usefixtures("worker")
def test_tasks_of_a_worker_share_connections_and_routes(orders: Topics) -> None:
    with counted() as first:
        assert rows(orders, "orders", 9) == 9
    with counted() as second:
        assert rows(orders, "orders", 9) == 9
        with Cluster(orders.options(subscribe="orders"), at_one_time=True) as cluster:
            assert cluster.resolve(Latest(), [queue("orders")], "") == {queue("orders"): 100}
    assert len(first.opened) == 2 and first.requests[RequestCode.GET_ROUTEINFO_BY_TOPIC] == 1
    assert second.opened == []
    assert second.requests == {RequestCode.PULL_MESSAGE: 1, RequestCode.GET_TOPIC_STATS_INFO: 1}


def test_an_application_keeps_nothing(orders: Topics) -> None:
    link = LINKS.acquire(orders.options(subscribe="orders").cluster)
    assert link.run(link.routes.topics())
    LINKS.release(link)
    assert link.connections.is_closed


@pytest.mark.usefixtures("worker")
def test_a_link_that_nobody_uses_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    closed, close = threading.Event(), Link.close

    def note(link: Link) -> None:
        close(link)
        closed.set()

    monkeypatch.setattr(Link, "close", note)
    some = Links(idle_s=0.05)
    link = some.acquire(ADDRESS)
    some.release(link)
    assert closed.wait(WAIT_S) and link.connections.is_closed
    other = some.acquire(ADDRESS)
    assert other is not link
    other.close()


@pytest.mark.usefixtures("worker")
def test_each_of_two_users_has_a_link_and_one_is_kept() -> None:
    some = Links()
    one, other = some.acquire(ADDRESS), some.acquire(ADDRESS)
    some.release(one)
    some.release(other)
    assert [one.connections.is_closed, other.connections.is_closed] == [False, True]
    assert some.acquire(ADDRESS) is one
    some.release(one)
    some.close_all()
    assert one.connections.is_closed


@pytest.mark.usefixtures("worker")
def test_a_broker_that_was_restarted_elsewhere_is_found(tmp_path: Path) -> None:
    name_server_port = free_port()
    for body in (b"0", b"1"):  # the broker's port is another one each time
        with in_thread(tmp_path, namesrv_port=name_server_port) as live:
            topics = Topics(live.name_server)
            topics.create("moving", queues=1)
            topics.send("moving", [body])
            assert rows(topics, "moving", int(body) + 1) == int(body) + 1


def test_a_process_that_is_forked_has_links_of_its_own(orders: Topics) -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORKS, orders.name_server]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert (done.stdout, done.returncode) == ("both\n", 0), done.stderr
