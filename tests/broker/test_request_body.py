"""How much a request may bring."""

from pathlib import Path
from typing import Any

import pytest
from tests.broker.conftest import Bench, serving

from cometmq.broker.refused import Refused
from cometmq.broker.request_body import RequestBodies, slices
from cometmq.errors import FormatError
from cometmq.wire.bodies import (
    BodyLimits,
    DataVersion,
    GroupConfig,
    TopicConfig,
    TopicConfigs,
)
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command

VERSION = b'{"counter":5}'
USUAL, LIST, ITEMS, NONSTANDARD, *_ = BodyLimits()
BODIES = RequestBodies(BodyLimits())


def command(body: bytes) -> Command:
    return Command(RequestCode.HEART_BEAT, body=body)


def test_a_body_that_is_not_too_large_is_decoded() -> None:
    assert BODIES.decode(DataVersion, command(VERSION.ljust(USUAL))) == DataVersion(5)
    assert BODIES.decode(DataVersion, command(VERSION.ljust(LIST)), is_list=True) == DataVersion(5)


def test_a_body_that_is_too_large_is_refused_by_its_size_and_the_limit() -> None:
    with pytest.raises(Refused, match=r"has 98305 bytes, at most 98304 .*requestBodyBytesMax.*: send less"):
        BODIES.decode(DataVersion, command(VERSION.ljust(USUAL + 1)))
    with pytest.raises(Refused, match=r"524289 bytes, at most 524288 .*requestListBytesMax"):
        BODIES.decode(DataVersion, command(VERSION.ljust(LIST + 1)), is_list=True)


def test_no_more_is_read_leniently_than_of_a_usual_body() -> None:
    nonstandard, of_others = b"{counter:5", b'{"counter":[]'
    assert BODIES.decode(DataVersion, command(nonstandard.ljust(NONSTANDARD - 1) + b"}")) == DataVersion(5)
    with pytest.raises(FormatError, match="not standard JSON; otherwise at most 24576 bytes are read"):
        BODIES.decode(DataVersion, command(nonstandard.ljust(NONSTANDARD) + b"}"))
    with pytest.raises(FormatError, match=r"body is not DataVersion: .*counter"):
        BODIES.decode(DataVersion, command(of_others.ljust(USUAL - 1) + b"}"))
    with pytest.raises(FormatError, match="not standard JSON of DataVersion; otherwise at most 98304 bytes"):
        BODIES.decode(DataVersion, command(of_others.ljust(USUAL) + b"}"), is_list=True)


def test_a_list_that_is_too_long_is_refused_by_its_length_and_the_limit() -> None:
    BODIES.check_count("groups", range(ITEMS), command(b""))
    with pytest.raises(Refused, match=r"4001 groups, at most 4000 .*requestListItemsMax.*: send fewer"):
        BODIES.check_count("groups", range(ITEMS + 1), command(b""))


def test_slices_hold_all_in_order_and_weigh_no_more_than_they_may() -> None:
    assert slices([], 10) == []
    assert slices([1, 2, 3, 4, 20, 1], 6) == [slice(0, 3), slice(3, 4), slice(4, 5), slice(5, 6)]


async def test_a_long_heartbeat_is_taken_in_whole(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        names = ",".join(f'{{"groupName":"g{n}"}}' for n in range(ITEMS))
        body = f'{{"clientID":"c","consumerDataSet":[{names}]}}'.encode()
        assert (await bench.ask(RequestCode.HEART_BEAT, body=body)).code == ResponseCode.SUCCESS
        for n in (0, 1, ITEMS // 2, ITEMS - 1):
            group = bench.parts.consumers.find(f"g{n}")
            assert group is not None and len(group.members) == 1
            assert bench.parts.topics.find(f"%RETRY%g{n}") is not None


@pytest.mark.parametrize(
    ("code", "body", "says"),
    [
        (
            RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
            b'{"topicConfigList":[' + b",".join(b'{"topicName":"t%d"}' % n for n in range(4_001)) + b"]}",
            "4001 topics",
        ),
        (
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
            b'{"groupName":"g"}'.ljust(USUAL + 1),
            "98305 bytes",
        ),
        (RequestCode.LOCK_BATCH_MQ, b"{}".ljust(USUAL + 1), "98305 bytes"),
        (RequestCode.HEART_BEAT, b"{}".ljust(LIST + 1), "524289 bytes"),
    ],
)
async def test_what_is_too_much_is_refused_and_changes_nothing(
    tmp_path: Path, code: RequestCode, body: bytes, says: str
) -> None:
    async with serving(tmp_path) as bench:
        answer = await bench.ask(code, body=body)
        assert answer.code == ResponseCode.INVALID_PARAMETER and says in (answer.remark or "")
        assert bench.parts.topics.data_version.counter == 0
        assert await is_served(bench)


SMALL: dict[str, Any] = {
    "request_body_bytes_max": 1_024,
    "request_list_bytes_max": 2_048,
    "request_list_items_max": 3,
    "nonstandard_body_bytes_max": 1_024,
}


@pytest.mark.parametrize(
    ("code", "body", "says"),
    [
        (RequestCode.LOCK_BATCH_MQ, b"{}".ljust(1_025), "at most 1024 are taken"),
        (RequestCode.CHECK_CLIENT_CONFIG, b"{}".ljust(1_025), "at most 1024 are taken"),
        (RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, b"{}".ljust(1_025), "at most 1024 are taken"),
        (RequestCode.HEART_BEAT, b"{}".ljust(2_049), "at most 2048 are taken"),
        (RequestCode.HEART_BEAT, b"{clientID:5}".ljust(1_025), "at most 1024 bytes are read"),
        (RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, b"{}".ljust(2_049), "at most 2048 are taken"),
        (
            RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
            b'{"topicConfigList":[' + b",".join([b'{"topicName":"t"}'] * 4) + b"]}",
            "brings 4 topics, at most 3",
        ),
        (
            RequestCode.HEART_BEAT,
            b'{"clientID":"c","producerDataSet":[' + b",".join([b'{"groupName":"g"}'] * 4) + b"]}",
            "brings 4 groups, at most 3",
        ),
    ],
)
async def test_each_limit_is_a_setting(tmp_path: Path, code: RequestCode, body: bytes, says: str) -> None:
    async with serving(tmp_path, **SMALL) as bench:
        answer = await bench.ask(code, body=body)
        assert answer.code != ResponseCode.SUCCESS and says in (answer.remark or "")
        assert await is_served(bench)


async def is_served(bench: Bench) -> bool:
    """Return whether what is not too much is taken."""
    group = await bench.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=GroupConfig(group="served"))
    topics = TopicConfigs([TopicConfig(topic="served")])
    created = await bench.ask(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, body=topics)
    return group.code == created.code == ResponseCode.SUCCESS
