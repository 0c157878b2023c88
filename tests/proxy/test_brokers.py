import pytest
from tests.proxy.conftest import Front

from cometmq.errors import NoRoute
from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.brokers import CACHED_MAX, _kept
from cometmq.proxy.outcomes import Failure


async def test_what_a_topic_accepts_and_how_a_group_receives_is_asked_once(front: Front) -> None:
    brokers = front.proxy._brokers
    await front.create_topic("T", "FIFO")
    await front.create_group("G", retry_max_times=3)
    for _ in range(2):
        assert await brokers.accepted_types("T") == (pb.FIFO,)
        assert (await brokers.group("G", "T")).retry_max_times == 3
    front.broker.restart()
    assert await brokers.accepted_types("T") == (pb.FIFO,)


async def test_an_unknown_group_is_asked_for_again(front: Front) -> None:
    await front.create_topic("T")
    with pytest.raises(Failure) as caught:
        await front.proxy._brokers.group("G", "T")
    assert caught.value.code == pb.ILLEGAL_CONSUMER_GROUP
    await front.create_group("G")
    assert (await front.proxy._brokers.group("G", "T")).group == "G"


async def test_a_topic_without_route_is_named(front: Front) -> None:
    with pytest.raises(NoRoute, match="No topic route info in name server for the topic: no"):
        await front.proxy._brokers.route("no")


def test_the_oldest_of_too_many_is_dropped() -> None:
    values: dict[str, int] = {}
    for number in range(CACHED_MAX + 2):
        _kept(values, str(number), lambda: 1)
    assert len(values) == CACHED_MAX and "0" not in values and "2" in values
