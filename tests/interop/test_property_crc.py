"""With enabledAppendPropCRC each broker ends its records in a checksum that the other takes.

What RocketMQ wrote here is kept as ``tests/golden/store-property-crc.tgz``.
"""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.interop import peers, remoting
from tests.interop.groups import JUDGED
from tests.interop.patience import wait_until

from cometmq.format.checksum import Crc
from cometmq.format.layout import commitlog_path
from cometmq.format.properties import CRC32, MAX_LENGTH, decode
from cometmq.format.property_crc import NAME, SIZE
from cometmq.format.record import Record, record_at
from cometmq.format.scan import scan
from cometmq.wire import batch
from cometmq.wire.batch import BatchMessage

pytestmark = pytest.mark.interop

SETTINGS: dict[str, object] = {
    "enabledAppendPropCRC": "true",
    "mappedFileSizeCommitLog": 1 << 18,
    "mappedFileSizeConsumeQueue": 6_000,
    "maxHashSlotNum": 100,
    "maxIndexNum": 400,
}
TOPIC = "Sealed"
SEND_V2, SEND_BATCH = 310, 320
OK, MESSAGE_ILLEGAL = 0, 13

OWN = "__CRC32#\x010000000000\x02"
SENDS = {
    "plain": "UNIQ_KEY\x01A1\x02KEYS\x01k\x02TAGS\x01t\x02",
    "own": f"UNIQ_KEY\x01A2\x02{OWN}KEYS\x01k\x02",
    "none": "",
    "unended": "UNIQ_KEY\x01A3\x02KEYS\x01k",
    "delayed": "UNIQ_KEY\x01A4\x02DELAY\x011\x02",
}
BATCHES = {
    "batch": [b"UNIQ_KEY\x01B1\x02TAGS\x01t\x02", b""],
    "own in batch": [f"UNIQ_KEY\x01B2\x02{OWN}KEYS\x01k\x02".encode()],
    "unended in batch": [b"UNIQ_KEY\x01B3\x02KEYS\x01k"],
}
ADDED = {"MSG_REGION", "CLUSTER", "TRACE_ON", "REAL_TOPIC", "REAL_QID", "DELAY", "UNIQ_KEY", CRC32}
"""What brokers add to what is sent, or may."""


@pytest.mark.parametrize("name", JUDGED)
def test_whatever_is_sent_ends_in_the_checksum(name: str, tmp_path: Path) -> None:
    store = tmp_path / "store"
    patient = peers.PATIENT
    with peers.START[name](store, SETTINGS | patient) as peer:
        host, _, port = peer.broker.partition(":")
        with socket.create_connection((host, int(port))) as connection:
            send_all(connection)
            # The delayed one comes a second later.
            wait_until(lambda: len(delivered(store)) == len(SENDS) + 4)
            fill_up(connection, store)
    found = delivered(store)
    sent = {record.body.decode(): decode(record.properties) for record in found}
    for body, properties in SENDS.items():
        mine = {key: value for key, value in sent[body].items() if key not in ADDED}
        assert mine == {key: value for key, value in decode(properties.encode()).items() if key not in ADDED}
    one_by_one = [record.properties for record in found if record.body.decode() in SENDS]
    assert all(properties.count(NAME) == 1 for properties in one_by_one)
    in_batches = [record.properties[:-SIZE] for record in found if record.body.decode() in BATCHES]
    assert in_batches == in_batches_of(name)
    assert max(len(record.properties) for record in found) == MAX_LENGTH


def in_batches_of(name: str) -> list[bytes]:
    """What stands before the property CRC of the batches' messages."""
    plain, none, own, unended = [member for members in BATCHES.values() for member in members]
    if name == "rocketmq":
        return [plain, none, own, unended]  # so it finds no property CRC in the last
    return [plain, none, own.replace(OWN.encode(), b""), unended + b"\x02"]


def send_all(connection: socket.socket) -> None:
    for body, properties in SENDS.items():
        request = remoting.frame(SEND_V2, header(properties), body.encode())
        assert remoting.ask(connection, request).code == OK
    for body, members in BATCHES.items():
        messages = [BatchMessage(body.encode(), member) for member in members]
        fields = header("UNIQ_KEY\x01B0\x02") | {"m": "true"}
        request = remoting.frame(SEND_BATCH, fields, batch.encode(messages))
        assert remoting.ask(connection, request).code == OK


def fill_up(connection: socket.socket, store: Path) -> None:
    """Send the longest properties that there is room for, and some that are a byte longer."""
    length = 32_000

    def send() -> int:
        request = remoting.frame(SEND_V2, header("p\x01" + "v" * length + "\x02"), b"long")
        return remoting.ask(connection, request).code

    assert send() == OK
    length += MAX_LENGTH - len(delivered(store)[-1].properties) + 1
    assert send() == MESSAGE_ILLEGAL
    length -= 1
    assert send() == OK


def header(properties: str) -> dict[str, str]:
    """The fields of a send: group, topic, default topic and queues, queue, flags, time, properties."""
    values = ("sender", TOPIC, "TBW102", "1", "0", "0", "1700000000000", "0", properties, "0")
    return dict(zip("abcdefghij", values, strict=True))


def delivered(store: Path) -> list[Record]:
    """The messages of the topic; every record of the log has the checksum."""
    return [record for record in records(store) if record.topic == TOPIC]


def records(store: Path) -> Iterator[Record]:
    data = commitlog_path(store, 0).read_bytes()
    found = scan(data, base_offset=0, crc=Crc.RECORD)
    yield from (record_at(data, head) for head in found)
