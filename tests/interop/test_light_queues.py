"""A store with light queues goes from RocketMQ to CometMQ and back: RocketMQ reads them as before."""

import shutil
import socket
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.interop import light_store, peers, remoting
from tests.interop.patience import wait_until

from cometmq.format.dispatch import light_offsets
from cometmq.format.layout import consume_queue_dir
from cometmq.format.properties import decode
from cometmq.format.record import decode_many

pytestmark = pytest.mark.interop

PULL, HAS_SUBSCRIPTION, NOT_FOUND = 11, 4, 19


@pytest.mark.parametrize(
    ("name", "is_damaged"),
    [
        ("store-light", True),
        pytest.param("store-light-killed", False, marks=pytest.mark.interop_long),
    ],
)
def test_rocketmq_reads_its_light_queues_after_cometmq(
    golden: Mapping[str, Path], tmp_path: Path, name: str, is_damaged: bool
) -> None:
    store = Path(shutil.copytree(golden[name], tmp_path / "store"))
    expected = claimed(store)
    if is_damaged:
        for light in light_store.ROOMS:
            path = max(consume_queue_dir(store, light, 0).iterdir())
            path.write_bytes(bytes(path.stat().st_size))
    tables = {path: path.read_bytes() for path in (store / "config").glob("lmqConsumerOffset.json*")}
    assert bool(tables) == (name == "store-light")  # one that is killed has not saved them yet
    with peers.cometmq(store, light_store.SETTINGS):
        pass
    assert {path: path.read_bytes() for path in tables} == tables
    with (
        peers.rocketmq(store, light_store.SETTINGS) as peer,
        light_store.connected(peer) as connection,
    ):
        assert {light: pulled(connection, light) for light in light_store.ROOMS} == expected
        light_store.send(connection, "later", light_store.properties("later", light_store.ROOMS[0]))
        longer = [*expected[light_store.ROOMS[0]], "later"]
        wait_until(lambda: pulled(connection, light_store.ROOMS[0]) == longer)


def claimed(store: Path) -> dict[str, list[str]]:
    """By light queue, the bodies of the messages whose records name it."""
    found: dict[str, dict[int, str]] = {light: {} for light in light_store.ROOMS}
    for record in light_store.records(store):
        for light, offset in light_offsets(record.topic, decode(record.properties)).items():
            found[light][offset] = record.body.decode()
    assert all(list(bodies) == list(range(len(bodies))) for bodies in found.values())
    return {light: list(bodies.values()) for light, bodies in found.items()}


def pulled(connection: socket.socket, light: str) -> list[str]:
    """Pull all messages of a light queue, and give their bodies."""
    bodies: list[str] = []
    fields = {
        "consumerGroup": light_store.READER,
        "topic": light,
        "queueId": "0",
        "maxMsgNums": "32",
        "sysFlag": str(HAS_SUBSCRIPTION),
        "commitOffset": "0",
        "suspendTimeoutMillis": "0",
        "subscription": "*",
        "subVersion": "0",
        "expressionType": "TAG",
    }
    while True:
        request = remoting.frame(PULL, fields | {"queueOffset": str(len(bodies))})
        answer = remoting.ask(connection, request)
        if answer.code != light_store.OK:
            assert answer.code == NOT_FOUND, answer
            return bodies
        bodies += [record.body.decode() for record in decode_many(answer.body)]
