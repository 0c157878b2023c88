import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.errors import FormatError
from cometmq.wire.bodies import registration
from cometmq.wire.bodies.registration import Registration, decode, encode
from cometmq.wire.bodies.topic import DataVersion, TopicConfig, TopicTable
from cometmq.wire.codes import Version

TIME = 1_795_253_542_379
# One registration as RocketMQ's RegisterBrokerBody writes it, both ways.
FROM_JAVA = (
    b'{"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":{"counter":0,"stateVersion":0,'
    b'"timestamp":1795253542379},"mappingDataVersion":{"counter":0,"stateVersion":0,"timestamp":1795253542379},'
    b'"topicConfigTable":{"TopicA":{"attributes":{"message.type":"FIFO"},"order":false,"perm":6,"readQueueNums":8,'
    b'"topicFilterType":"SINGLE_TAG","topicName":"TopicA","topicSysFlag":0,"writeQueueNums":8}},'
    b'"topicQueueMappingDetailMap":{},"topicQueueMappingInfoMap":{}}}'
)
COMPRESSED_FROM_JAVA = bytes.fromhex(
    "78da636060b0a8564ace2fcd2b492d52b232d0512a2e492c490d4b2d2acecccf030b9464e6a60205730b94ac0ccd2d4d8d4c8d4d4d8c"
    "8ccd2d6b1918181881583f24bf2033d951c10208cd14823dfddc7d5ce3431cdd15aa95801a8b13d353f54a2a0b5295ac94dc3cddfc95"
    "40da98a26381240300a1f8210c"
)
TOPIC = TopicConfig("TopicA", 8, 8, attributes={"message.type": "FIFO"})


def packed(*texts: str | int) -> bytes:
    return zlib.compress(
        b"".join(
            struct.pack(">i", text) if isinstance(text, int) else struct.pack(">i", len(text)) + text.encode()
            for text in texts
        )
    )


def test_reads_and_writes_json_as_a_java_broker_does() -> None:
    version = DataVersion(0, 0, TIME)
    whole = Registration([], TopicTable(version, {"TopicA": TOPIC}, version, {}, {}))
    assert decode(FROM_JAVA) == whole
    assert encode(whole) == FROM_JAVA


def test_reads_and_writes_the_compressed_form_as_a_java_broker_does() -> None:
    whole = Registration([], TopicTable(DataVersion(0, 0, TIME), {"TopicA": TOPIC}, mapping_infos={}))
    assert decode(COMPRESSED_FROM_JAVA, compressed=True) == whole
    assert zlib.decompress(encode(whole, compressed=True)) == zlib.decompress(COMPRESSED_FROM_JAVA)


def test_a_4_x_broker_sends_neither_attributes_nor_static_topics() -> None:
    data = packed('{"counter":1,"timestamp":5}', 1, "T 4 8 6 SINGLE_TAG", '["1.2.3.4:5"]')
    assert decode(data, compressed=True, version=Version.V4_9_7) == Registration(
        ["1.2.3.4:5"], TopicTable(DataVersion(1, 0, 5), {"T": TopicConfig("T", 4, 8)})
    )


def test_static_topics_are_kept_as_they_are() -> None:
    info = {"bname": "b", "epoch": 1, "topic": "T"}
    whole = Registration([], TopicTable(mapping_infos={"T": info}))
    assert decode(encode(whole, compressed=True), compressed=True) == whole


def test_topics_with_bits_and_blanks_in_attributes_come_back() -> None:
    topic = TopicConfig("%RETRY%g", 1, 2, 7, order=False, attributes={"a": "b c"})
    whole = Registration([], TopicTable(DataVersion(), {topic.topic: topic}, mapping_infos={}))
    assert decode(encode(whole, compressed=True), compressed=True) == whole


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"no zlib", "compressed body of 7 bytes"),
        (COMPRESSED_FROM_JAVA[:-9], "cut off"),
        (packed(), "registration of 0 bytes is cut at 0"),
        (packed(-1), "a negative count or length, -1, at 0"),
        (packed(5), "registration of 4 bytes: text of 5 at 4"),
        (packed("{}", 1, "T 4 8"), "body is not TopicConfig"),
        (packed("{}", 1, "T 4 8 x SINGLE_TAG"), r"Expected `int`, got `str` - at `\$.perm`"),
        (packed("{}", 1, "T 4 8 6 SINGLE_TAG ["), "JSON at character"),
        (packed("{}", 0, "{}"), "body is not Registration"),
        (packed("{}", 2**31 - 1), "is cut at"),
        (zlib.compress(struct.pack(">i", 1) + b"\xff"), "not UTF-8"),
    ],
)
def test_a_damaged_registration_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(FormatError, match=reason):
        decode(data, compressed=True)


def test_a_small_body_that_grows_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "DECOMPRESSED_MAX", 1000)
    with pytest.raises(FormatError, match="larger than 1000"):
        decode(zlib.compress(bytes(1_000_000)), compressed=True)


@given(st.binary(max_size=100))
def test_garbage_is_refused_and_nothing_worse(data: bytes) -> None:
    for body in (data, zlib.compress(data)):
        try:
            decode(body, compressed=True)
        except FormatError:
            continue
