"""What pulls are answered that were held while something changed: raw requests, the same for both brokers."""

import json
import socket
from collections.abc import Iterator, Mapping

import pytest
from tests.interop import remoting
from tests.interop.patience import PATIENCE_S
from tests.interop.peers import Peer

from cometmq.format import record
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.headers import PullFlag

pytestmark = pytest.mark.interop

HELD_MS = 20_000


@pytest.fixture
def operator(broker: Peer) -> Iterator[socket.socket]:
    with connect(broker) as connection:
        yield connection


def test_a_held_pull_is_refused_once_its_topic_may_not_be_read(broker: Peer, operator: socket.socket) -> None:
    make_topic(operator, "HeldPerm", perm=6)
    send(operator, "HeldPerm", "A", b"0")
    with connect(broker) as consumer:
        hold(consumer, "HeldPerm", "HeldPermGroup", PullFlag.SUBSCRIPTION)
        make_topic(operator, "HeldPerm", perm=2)
        send(operator, "HeldPerm", "A", b"1")
        assert remoting.answer(consumer).code == ResponseCode.NO_PERMISSION


def test_a_held_pull_gives_what_its_group_newly_wants(broker: Peer, operator: socket.socket) -> None:
    make_topic(operator, "HeldTags", perm=6)
    send(operator, "HeldTags", "A", b"0")
    subscribe(operator, "HeldTagsGroup", "HeldTags", ["A"], version=1)
    with connect(broker) as consumer:
        hold(consumer, "HeldTags", "HeldTagsGroup", 0)
        subscribe(operator, "HeldTagsGroup", "HeldTags", ["A", "B"], version=2)
        send(operator, "HeldTags", "B", b"1")
        send(operator, "HeldTags", "A", b"2")
        found = remoting.answer(consumer)
    assert [message.body for message in record.decode_many(found.body)] == [b"1", b"2"]


def connect(broker: Peer) -> socket.socket:
    host, _, port = broker.broker.partition(":")
    return socket.create_connection((host, int(port)), timeout=PATIENCE_S)


def ask(connection: socket.socket, code: int, fields: Mapping[str, object], body: bytes = b"") -> None:
    texts = {name: str(value) for name, value in fields.items()}
    answer = remoting.ask(connection, remoting.frame(code, texts, body))
    assert answer.code == ResponseCode.SUCCESS, answer


def make_topic(connection: socket.socket, topic: str, *, perm: int) -> None:
    fields = {"topic": topic, "perm": perm, "readQueueNums": 1, "writeQueueNums": 1}
    fixed = {"defaultTopic": "TBW102", "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false"}
    ask(connection, RequestCode.UPDATE_AND_CREATE_TOPIC, fields | fixed)


def send(connection: socket.socket, topic: str, tag: str, body: bytes) -> None:
    header = {"a": "Operators", "b": topic, "c": "TBW102", "d": 1, "e": 0, "f": 0, "g": 0, "h": 0}
    ask(connection, RequestCode.SEND_MESSAGE_V2, header | {"i": f"TAGS\1{tag}\2"}, body)


def subscribe(connection: socket.socket, group: str, topic: str, tags: list[str], *, version: int) -> None:
    subscription = {
        "topic": topic,
        "subString": " || ".join(tags),
        "tagsSet": tags,
        "codeSet": [ord(tag) for tag in tags],
        "subVersion": version,
        "expressionType": "TAG",
    }
    consumer = {
        "groupName": group,
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
        "subscriptionDataSet": [subscription],
    }
    beat = {"clientID": "operator", "consumerDataSet": [consumer], "producerDataSet": []}
    ask(connection, RequestCode.HEART_BEAT, {}, json.dumps(beat).encode())


def hold(connection: socket.socket, topic: str, group: str, flag: int) -> None:
    """Pull behind the first message, and see to it that this has come by asking something else."""
    fields = {
        "consumerGroup": group,
        "topic": topic,
        "queueId": 0,
        "queueOffset": 1,
        "maxMsgNums": 32,
        "sysFlag": flag | PullFlag.SUSPEND,
        "commitOffset": 0,
        "suspendTimeoutMillis": HELD_MS,
        "subscription": "*",
        "subVersion": 1,
        "expressionType": "TAG",
    }
    texts = {name: str(value) for name, value in fields.items()}
    connection.settimeout(0.5)
    with pytest.raises(TimeoutError):  # it is held: nothing comes
        remoting.ask(connection, remoting.frame(RequestCode.PULL_MESSAGE, texts))
    connection.settimeout(PATIENCE_S)
