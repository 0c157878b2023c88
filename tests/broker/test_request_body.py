"""How much a request may bring."""

from pathlib import Path

import pytest
from tests.broker.conftest import Bench, serving

from cometmq.broker.refused import Refused
from cometmq.broker.request_body import (
    ITEMS_MAX,
    LIST_SIZE_MAX,
    check_count,
    decode_request,
    slices,
)
from cometmq.errors import FormatError
from cometmq.wire.bodies import (
    DataVersion,
    GroupConfig,
    TopicConfig,
    TopicConfigs,
)
from cometmq.wire.bodies.body import NONSTANDARD_LENGTH_MAX, USUAL_LENGTH_MAX
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command

VERSION = b'{"counter":5}'


def command(body: bytes) -> Command:
    return Command(RequestCode.HEART_BEAT, body=body)


def test_a_body_that_is_not_too_large_is_decoded() -> None:
    assert decode_request(DataVersion, command(VERSION.ljust(USUAL_LENGTH_MAX))) == DataVersion(5)
    assert decode_request(DataVersion, command(VERSION.ljust(LIST_SIZE_MAX)), LIST_SIZE_MAX) == DataVersion(5)


def test_a_body_that_is_too_large_is_refused_by_its_size_and_the_limit() -> None:
    with pytest.raises(Refused, match=r"request 34 has 98305 bytes, at most 98304 are taken: send less"):
        decode_request(DataVersion, command(VERSION.ljust(USUAL_LENGTH_MAX + 1)))


def test_no_more_is_read_leniently_than_of_a_usual_body() -> None:
    nonstandard, of_others = b"{counter:5", b'{"counter":[]'
    assert decode_request(
        DataVersion, command(nonstandard.ljust(NONSTANDARD_LENGTH_MAX - 1) + b"}")
    ) == DataVersion(5)
    with pytest.raises(FormatError, match="not standard JSON; otherwise at most 24576 bytes are read"):
        decode_request(DataVersion, command(nonstandard.ljust(NONSTANDARD_LENGTH_MAX) + b"}"))
    with pytest.raises(FormatError, match=r"body is not DataVersion: .*counter"):
        decode_request(DataVersion, command(of_others.ljust(USUAL_LENGTH_MAX - 1) + b"}"))
    with pytest.raises(FormatError, match="not standard JSON of DataVersion; otherwise at most 98304 bytes"):
        decode_request(DataVersion, command(of_others.ljust(USUAL_LENGTH_MAX) + b"}"), LIST_SIZE_MAX)


def test_a_list_that_is_too_long_is_refused_by_its_length_and_the_limit() -> None:
    check_count("groups", range(ITEMS_MAX), command(b""))
    with pytest.raises(Refused, match="request 34 brings 4001 groups, at most 4000 are taken: send fewer"):
        check_count("groups", range(ITEMS_MAX + 1), command(b""))


def test_slices_hold_all_in_order_and_weigh_no_more_than_they_may() -> None:
    assert slices([], 10) == []
    assert slices([1, 2, 3, 4, 20, 1], 6) == [slice(0, 3), slice(3, 4), slice(4, 5), slice(5, 6)]


async def test_a_long_heartbeat_is_taken_in_whole(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        names = ",".join(f'{{"groupName":"g{n}"}}' for n in range(ITEMS_MAX))
        body = f'{{"clientID":"c","consumerDataSet":[{names}]}}'.encode()
        assert (await bench.ask(RequestCode.HEART_BEAT, body=body)).code == ResponseCode.SUCCESS
        for n in (0, 1, ITEMS_MAX // 2, ITEMS_MAX - 1):
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
            b'{"groupName":"g"}'.ljust(USUAL_LENGTH_MAX + 1),
            "98305 bytes",
        ),
        (RequestCode.LOCK_BATCH_MQ, b"{}".ljust(USUAL_LENGTH_MAX + 1), "98305 bytes"),
        (RequestCode.HEART_BEAT, b"{}".ljust(LIST_SIZE_MAX + 1), "524289 bytes"),
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


async def is_served(bench: Bench) -> bool:
    """Tell whether what is not too much is taken."""
    group = await bench.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=GroupConfig(group="served"))
    topics = TopicConfigs([TopicConfig(topic="served")])
    created = await bench.ask(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, body=topics)
    return group.code == created.code == ResponseCode.SUCCESS
