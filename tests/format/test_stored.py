import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from cometmq.errors import FormatError, UndecodableBody
from cometmq.format.compression import compress
from cometmq.format.host import pack_host
from cometmq.format.layout import commitlog_dir, parse_offset_name
from cometmq.format.message_id import offset_message_id
from cometmq.format.record import Record, record_at
from cometmq.format.scan import StopReason, scan
from cometmq.format.stored import message_as_stored, readable_message, stored_message
from cometmq.format.sys_flag import COMPRESSION_SHIFT, CompressionType, compressed_with, is_compressed
from cometmq.message import StoredMessage

HOST = pack_host("127.0.0.1", 20911)
RECORD = Record(
    topic="TopicA",
    body=b"hello",
    properties=b"TAGS\x01TagA\x02KEYS\x01k1  k2\x02UNIQ_KEY\x01ID\x02",
    queue_id=2,
    queue_offset=3,
    physical_offset=4096,
    flag=7,
    sys_flag=0,
    born_time=1_000,
    born_host=pack_host("::1", 52854),
    store_time=2_000,
    store_host=HOST,
    reconsume_times=1,
)


def stored_messages(store: Path) -> Iterator[StoredMessage]:
    for path in sorted(commitlog_dir(store).iterdir()):
        data = path.read_bytes()
        records = scan(data, base_offset=parse_offset_name(path.name))
        yield from (stored_message(record_at(data, head)) for head in records)
        assert records.stop.reason in (StopReason.END, StopReason.BLANK)


@pytest.fixture(scope="module")
def clean(golden: Mapping[str, Path]) -> dict[int, StoredMessage]:
    return {message.physical_offset: message for message in stored_messages(golden["store-clean"])}


def test_every_field_of_a_record_arrives() -> None:
    assert stored_message(RECORD) == StoredMessage(
        topic="TopicA",
        queue_id=2,
        queue_offset=3,
        physical_offset=4096,
        message_id="ID",
        offset_id="7F000001000051AF0000000000001000",
        tags="TagA",
        keys=("k1", "k2"),
        properties={"TAGS": "TagA", "KEYS": "k1  k2", "UNIQ_KEY": "ID"},
        body=b"hello",
        flag=7,
        sys_flag=0,
        born_time=1_000,
        born_host="[::1]:52854",
        store_time=2_000,
        store_host="127.0.0.1:20911",
        reconsume_times=1,
        body_crc=0x3610A686,
    )


def test_a_message_without_properties_has_its_offset_id() -> None:
    message = stored_message(RECORD._replace(properties=b""))
    assert message.message_id == message.offset_id == offset_message_id(HOST, 4096)
    assert (message.tags, message.keys, message.properties) == (None, (), {})


def test_a_compressed_body_is_decompressed_up_to_a_limit() -> None:
    body = bytes(10_000)
    record = RECORD._replace(
        body=compress(body, CompressionType.ZSTD),
        sys_flag=compressed_with(0, CompressionType.ZSTD),
    )
    assert stored_message(record).body == body
    assert stored_message(record).sys_flag == CompressionType.ZSTD << COMPRESSION_SHIFT
    with pytest.raises(FormatError, match="larger than 9999"):
        stored_message(record, size_max=9_999)


def test_every_message_is_what_a_java_consumer_got(
    clean: dict[int, StoredMessage], golden_facts: Mapping[str, Any]
) -> None:
    dumped = golden_facts["store-clean-dump"]["messages"]
    for expected in dumped:
        assert expected.items() >= as_dumped(clean[expected["commitLogOffset"]]).items()
    assert len({expected["commitLogOffset"] for expected in dumped}) == len(dumped) > 2600


def test_every_acknowledged_message_is_what_the_java_producer_sent(
    clean: dict[int, StoredMessage], golden_facts: Mapping[str, Any]
) -> None:
    by_message_id = defaultdict(list)
    for message in clean.values():
        by_message_id[message.message_id].append(message)
    acked = golden_facts["store-clean"]["acked"]
    for sent in acked:
        copies = by_message_id[sent["msgId"]]
        assert sent["offsetMsgId"] in {None, *(message.offset_id for message in copies)}
        for message in copies:  # half or delayed first, then delivered, then maybe given back
            assert hashlib.sha1(message.body).hexdigest() == sent["bodySha1"]
            assert len(message.body) == sent["bodyLen"]
            assert message.tags == sent["tags"]
            assert " ".join(message.keys) == (sent["keys"] or "")
            assert message.flag == sent["flag"]
    assert {f"compressed-{compression.name}" for compression in CompressionType} <= {
        sent["kind"] for sent in acked
    }


def test_a_body_that_cannot_be_decompressed_is_readable_as_it_is_stored() -> None:
    record = RECORD._replace(sys_flag=compressed_with(0, CompressionType.ZLIB))
    with pytest.raises(UndecodableBody, match=r"queue offset .*compressed body of 5 bytes") as caught:
        stored_message(record)
    assert caught.value.message == message_as_stored(record)
    message = readable_message(record)
    assert (message.body, message.tags) == (b"hello", "TagA")
    assert is_compressed(message.sys_flag), "nothing else tells that the body is not the payload"
    assert readable_message(RECORD) == stored_message(RECORD)


def test_nothing_acknowledged_is_missing_after_a_kill(
    golden: Mapping[str, Path], golden_facts: Mapping[str, Any]
) -> None:
    there = {message.offset_id: message for message in stored_messages(golden["store-killed"])}
    for sent in golden_facts["store-killed"]["acked"]:
        message = there[sent["offsetMsgId"]]
        assert message.message_id == sent["msgId"]
        assert hashlib.sha1(message.body).hexdigest() == sent["bodySha1"]


def as_dumped(message: StoredMessage) -> dict[str, Any]:
    """Convert a message to the form of the dump, which a Java pull consumer wrote."""
    return {
        "topic": message.topic,
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "commitLogOffset": message.physical_offset,
        "sysFlag": message.sys_flag,
        "flag": message.flag,
        "bodyCRC": message.body_crc,
        "bornTimestamp": message.born_time,
        "storeTimestamp": message.store_time,
        "bornHost": "/" + message.born_host,
        "storeHost": "/" + message.store_host,
        "reconsumeTimes": message.reconsume_times,
        "msgId": message.message_id,
        "bodyLen": len(message.body),
        "bodySha1": hashlib.sha1(message.body).hexdigest(),
        "properties": message.properties,
    }
