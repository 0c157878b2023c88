"""Names that lead out of the store, or cannot be file names: no request makes a path of one."""

import logging
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Final

import msgspec
import pytest
from tests.adversity.conftest import attacked, paths
from tests.broker.conftest import Client
from tests.kit.refusals import CODES, answer, assert_log_is_sound, plain

from cometmq.format.layout import valid_topic
from cometmq.message import MessageQueue
from cometmq.wire import bodies
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.headers import Header
from cometmq.wire.requests import REQUESTS

ILLEGAL: Final = {
    "empty": "",
    "dot": ".",
    "two dots": "..",
    "up": "../x",
    "far up": "../../../../x",
    "up inside": "T/../../x",
    "absolute": "/etc/passwd",
    "root": "/",
    "backslashes": "..\\..\\x",
    "drive": "C:\\x",
    "NUL": "T\0x",
    "new line": "T\n../x",
    "line end": "T\n",
    "blank": "a b",
    "dotted": "a.b",
    "home": "~",
    "unicode": "größe",
    "other dots": "․․",
    "other slash": "..∕x",
    "half a pair's place": "T\ufffd",
    "of 128": "x" * 128,
    "of 256": "x" * 256,
    "of 4000": "x" * 4_000,
    "retry up": "%RETRY%../x",
    "retry too long": "%RETRY%" + "x" * 249,
    "escaped": "%2e%2e%2fx\x7f",
    "separator": "T@g",
}

WORST: Final = ("two dots", "up", "absolute", "NUL")
"""These are tried in each field by itself too."""

NAMED: Final = frozenset(
    {"topic", "group", "groupName", "consumerGroup", "producerGroup", "defaultTopic", "a", "b", "c"}
    | {"originTopic", "topicList", "namespace", "key", "brokerName", "clusterName", "cluster", "clientID"}
)
"""Header fields that hold a name."""


def named(header_type: type[Header]) -> Iterator[str]:
    for field in msgspec.structs.fields(header_type):
        if field.encode_name in NAMED:
            yield field.encode_name


def bodies_with(name: str) -> Iterator[tuple[RequestCode, bodies.Body]]:
    """Yield requests that hold a name in their body."""
    queue = MessageQueue(name, name, 0)
    subscription = bodies.tag_subscription(name, "*", 1)
    consumer = bodies.ConsumerData(name, subscriptions=[subscription])
    beat = bodies.Heartbeat("c", [bodies.ProducerData(name)], [consumer])
    yield RequestCode.HEART_BEAT, beat
    yield RequestCode.HEART_BEAT, bodies.Heartbeat("c", consumers=[bodies.ConsumerData("g" + name)])
    yield RequestCode.CHECK_CLIENT_CONFIG, bodies.ClientConfigCheck("c", name, subscription)
    yield RequestCode.LOCK_BATCH_MQ, bodies.LockRequest("c", name, [queue])
    yield RequestCode.UNLOCK_BATCH_MQ, bodies.LockRequest("c", name, [queue])
    yield RequestCode.QUERY_ASSIGNMENT, bodies.AssignmentRequest(name, name, "c", "AVG")
    yield RequestCode.SET_MESSAGE_REQUEST_MODE, bodies.MessageModeRequest(name, name)
    yield RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, bodies.TopicConfigs([bodies.TopicConfig(name)])
    yield RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, bodies.GroupConfig(name)
    table = bodies.TopicTable(topics={name: bodies.TopicConfig(name), "T": bodies.TopicConfig("T")})
    yield RequestCode.REGISTER_BROKER, bodies.Registration(table=table)


async def test_no_name_in_any_request_makes_a_path_outside_of_what_it_names(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = tmp_path / "a" / "b" / "store"

    caplog.set_level(logging.INFO)
    async with attacked(store, namesrv_kv=tmp_path / "kv" / "kvConfig.json") as scene:
        before = {path for path in paths(tmp_path) if not path.startswith("a/b/store/")}
        for address in scene.addresses:
            client = await Client.open(address)
            for what, name in ILLEGAL.items():
                for code in CODES:
                    good, fields = plain(REQUESTS[code].header), list(named(REQUESTS[code].header))
                    for field in fields if what in WORST else ():
                        await answer(client, code, good | {field: name}, b"body")
                    if fields:
                        await answer(client, code, good | dict.fromkeys(fields, name), b"body")
                for code, body in bodies_with(name):
                    await answer(client, code, plain(REQUESTS[code].header), bodies.encode(body))
            await client.connection.close()
        after = {path for path in paths(tmp_path) if not path.startswith("a/b/store/")}
        assert after - before <= {"kv", "kv/kvConfig.json"}
    assert_log_is_sound(caplog)
    made = set(paths(store))
    assert {path.partition("/")[0] for path in made} <= {
        *("checkpoint", "commitlog", "config", "consumequeue", "index", "lock", "timerlog", "timerwheel")
    }
    for topic in (store / "consumequeue").iterdir():
        assert valid_topic(topic.name) and all(queue.name.isdigit() for queue in topic.iterdir())
    for path in (store / "config").iterdir():
        assert re.fullmatch(r"[a-zA-Z]+\.json(\.bak)?|timercheck", path.name)


async def test_a_send_or_a_new_topic_with_an_illegal_name_says_what_is_legal(tmp_path: Path) -> None:
    async with attacked(tmp_path) as scene:
        codes = {RequestCode.SEND_MESSAGE: "topic", RequestCode.SEND_MESSAGE_V2: "b"}
        codes |= dict.fromkeys(
            (RequestCode.UPDATE_AND_CREATE_TOPIC, RequestCode.DELETE_TOPIC_IN_BROKER), "topic"
        )
        for (code, field), name in product(codes.items(), ILLEGAL.values()):
            got = await answer(scene.client, code, plain(REQUESTS[code].header) | {field: name}, b"body")
            assert got.code == ResponseCode.INVALID_PARAMETER, (code, name, got)
            assert any(word in (got.remark or "") for word in ("a-z A-Z 0-9", "shorten it", "is empty"))
