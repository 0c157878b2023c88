"""Which queues there are and where they end: from CometMQ, and from servers that know less."""

import asyncio
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NoReturn

import pytest
from tests.live import in_thread
from tests.spark.live.conftest import Topics, counted, queue

from cometmq.broker.admin.topics import TopicRequests
from cometmq.broker.refused import Refused
from cometmq.cluster.route import READ, QueueCounts, Route
from cometmq.errors import FormatError, RemoteError
from cometmq.message import MessageQueue
from cometmq.net.address import free_port
from cometmq.spark.live import survey
from cometmq.spark.live.batch import LiveReader
from cometmq.spark.live.cluster import Cluster
from cometmq.spark.live.options import LiveOptions, TopicChoice, parse
from cometmq.spark.live.survey import EMPTY, Extent, Survey, covers
from cometmq.wire.bodies import TopicStats, decode_topic_stats
from cometmq.wire.codes import RequestCode, ResponseCode

PAID, NEW = queue("orders", 0), queue("orders", 1)
STATS, ROUTE = RequestCode.GET_TOPIC_STATS_INFO, RequestCode.GET_ROUTEINFO_BY_TOPIC


@contextmanager
def clustered(options: LiveOptions, *, at_one_time: bool = False) -> Iterator[Cluster]:
    with Cluster(options, at_one_time=at_one_time) as cluster:
        yield cluster


def test_a_subscription_covers_what_it_names() -> None:
    other = MessageQueue("other", "broker-a", 0)
    for subscription in (
        TopicChoice(topics=frozenset({"orders"})),
        TopicChoice(queues=frozenset({PAID})),
        TopicChoice(pattern=re.compile("ord.*")),
    ):
        assert covers(subscription, PAID) and not covers(subscription, other)
    assert not covers(TopicChoice(queues=frozenset({PAID})), NEW)
    assert not covers(TopicChoice(pattern=re.compile(".*")), MessageQueue("%RETRY%g", "b", 0))


def test_a_look_finds_all_queues_with_their_ends(orders: Topics) -> None:
    both = {PAID: Extent(0, 100), NEW: Extent(0, 40)}
    with clustered(orders.options(subscribePattern="ord.*")) as cluster:
        assert cluster.all_extents() == both
        assert cluster.extents([NEW, queue("orders", 7)]) == {NEW: both[NEW], queue("orders", 7): EMPTY}
    with clustered(orders.options(subscribe="orders,nothing")) as cluster:
        assert cluster.all_extents() == both
    with clustered(orders.options(assign='{"orders": {"broker-a": [1, 7]}}')) as cluster:
        assert cluster.all_extents() == {NEW: both[NEW]}


def test_all_positions_of_one_moment_take_one_request(topics: Topics) -> None:
    topics.create("moment", queues=1)
    one = queue("moment")
    with clustered(topics.options(subscribe="moment"), at_one_time=True) as still:
        with counted() as traffic:
            assert still.extents([one]) == {one: EMPTY}
            topics.send("moment", [b"0"])
            assert still.extents([one]) == {one: EMPTY}
        assert traffic.requests[STATS] == 1
    with clustered(topics.options(subscribe="moment")) as moving:
        assert moving.extents([one]) == {one: Extent(0, 1)}


def test_what_brokers_say_is_decoded_when_it_differs(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[bytes] = []

    def decode(body: bytes) -> TopicStats:
        decoded.append(body)
        return decode_topic_stats(body)

    monkeypatch.setattr(survey, "decode_topic_stats", decode)
    topics.create("still", queues=2)
    with clustered(topics.options(subscribe="still")) as cluster:
        empty = dict.fromkeys((queue("still", 0), queue("still", 1)), EMPTY)
        assert [cluster.all_extents() for _ in range(3)] == [empty] * 3
        assert len(decoded) == 1
        topics.send("still", [b"0"])
        assert sorted(cluster.all_extents().values()) == [EMPTY, Extent(0, 1)]
        assert len(decoded) == 2


def test_routes_are_kept_and_asked_for_again_when_a_topic_has_grown(topics: Topics) -> None:
    topics.create("rising", queues=1)
    with clustered(topics.options(subscribe="rising")) as cluster:
        cluster.all_extents()
        with counted() as same:
            assert set(cluster.all_extents()) == {queue("rising")}
        topics.create("rising", queues=3)
        with counted() as more:
            assert set(cluster.all_extents()) == {queue("rising", number) for number in range(3)}
    assert same.requests == {STATS: 1}
    assert more.requests == {STATS: 2, ROUTE: 1}


def test_a_topic_that_is_gone_is_left_out_at_once(topics: Topics) -> None:
    topics.create("vanishing", queues=1)
    with clustered(topics.options(subscribe="vanishing", retrySeconds="600")) as cluster:
        assert set(cluster.all_extents()) == {queue("vanishing")}
        topics.delete("vanishing")
        assert cluster.all_extents() == {}


def refuse(code: ResponseCode) -> NoReturn:
    raise Refused(code, "not here")


@pytest.mark.parametrize("code", [ResponseCode.REQUEST_CODE_NOT_SUPPORTED, ResponseCode.NO_PERMISSION])
def test_who_does_not_know_the_request_is_asked_about_each_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: ResponseCode
) -> None:
    monkeypatch.setattr(TopicRequests, "stats", lambda *_: refuse(code))
    with in_thread(tmp_path) as live:
        topics = Topics(live.name_server)
        topics.create("plain")
        topics.send("plain", [b"0"])
        with clustered(topics.options(subscribe="plain", retrySeconds="600")) as cluster:
            if code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                assert cluster.all_extents() == {queue("plain"): Extent(0, 1), queue("plain", 1): EMPTY}
                return
            said = "broker broker-a, topic plain: the ends of its queues: not here"
            with pytest.raises(RemoteError, match=said):
                cluster.all_extents()


def test_queues_are_waited_for_as_long_as_their_broker_may_come_back(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survey, "LOOK_AGAIN_S", 0.05)
    topics.create("waited", queues=1)
    gone, away = queue("waited", 7), MessageQueue("waited", "broker-x", 0)
    with clustered(topics.options(subscribe="waited", retrySeconds="600")) as patient:
        assert patient.wait_for_queues({queue("waited")}) == {queue("waited")}
        assert patient.wait_for_queues({gone}) == {queue("waited")}, (
            "its broker is there, and does not have it"
        )
    with clustered(topics.options(subscribe="waited", retrySeconds="1")) as cluster, counted() as traffic:
        assert cluster.wait_for_queues({gone, away}) == {queue("waited")}
    assert traffic.requests[ROUTE] >= 2


def test_a_read_right_after_a_restart_waits_for_the_first_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = f"127.0.0.1:{free_port()}"
    has_brokers, broker = Survey._has_brokers, ExitStack()
    asked: list[bool] = []

    with in_thread(tmp_path / "store") as live:
        Topics(live.name_server).create("restarted", queues=1)
    with in_thread(tmp_path / "other", namesrv_addr=nowhere) as empty, broker:
        elsewhere = {"namesrv_addr": empty.name_server}

        async def start_then(self: Survey) -> bool:
            asked.append(await has_brokers(self))
            if not asked[0] and len(asked) == 1:
                broker.enter_context(in_thread(tmp_path / "store", **elsewhere))
            return asked[-1]

        monkeypatch.setattr(Survey, "_has_brokers", start_then)
        monkeypatch.setattr(survey, "LOOK_AGAIN_S", 0.05)
        options = parse({"namesrv": empty.name_server, "subscribe": "restarted"})
        reader = LiveReader(options, ("body",))
        assert reader.partitions() == [] and asked == [False]


class OneUnusable:
    """The routes of two topics, of which one has more queues than can be."""

    async def topics(self) -> list[str]:
        return ["orders", "others"]

    def expire(self, topic: str) -> None:
        pass

    async def get(self, topic: str) -> Route:
        return Route(topic, (QueueCounts("a", 1 if topic == "orders" else 2**31 - 1, 1, READ),), {})


@pytest.mark.parametrize("named", ["subscribe", "subscribePattern"])
def test_a_topic_of_more_queues_than_can_be_is_left_out_of_a_pattern_and_refused_by_name(named: str) -> None:
    options = parse({"namesrv": "192.0.2.1:9876", named: "orders,others" if named == "subscribe" else "o.*"})
    nobody: Any = None
    routes: Any = OneUnusable()
    look = Survey(options, routes, nobody, at_one_time=False).queues()
    if named == "subscribePattern":
        assert asyncio.run(look) == {MessageQueue("orders", "a", 0)}
        return
    with pytest.raises(FormatError, match="topic 'others' has 2147483647 queues to read"):
        asyncio.run(look)
