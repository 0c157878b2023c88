"""From a message to a request: what is added, what is compressed, what is refused and why."""

from typing import Any

import pytest
from msgspec.structs import replace

from cometmq.client.producer import outgoing
from cometmq.client.producer.outgoing import (
    BODY_SIZE_MAX,
    COMPRESS_OVER_BYTES,
    common_sharding_key,
    many,
    single,
)
from cometmq.errors import IllegalName, MessageIllegal
from cometmq.format import properties, sys_flag
from cometmq.format.compression import decompress
from cometmq.message import Message, MessageQueue
from cometmq.wire import batch
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import decode
from cometmq.wire.headers import SendHeaderV2, parse

QUEUE = MessageQueue("Orders", "broker-a", 3)
ID = "7F0000010001" + "0" * 20


def message(topic: str = "Orders", body: bytes = b"body", **fields: Any) -> Message:
    return Message(topic, body, **fields)


def by_name(text: str | bytes) -> dict[str, str]:
    return properties.decode(text.encode() if isinstance(text, str) else text)


def test_a_request_carries_all_of_the_message() -> None:
    ready = single(message(tags="TagA", keys=("k1", "k2"), properties={"color": "red"}, flag=7), ID)
    command = decode(ready.request("producers", QUEUE, 1_000).encode(opaque=1))
    header = parse(SendHeaderV2, command.ext_fields)
    assert (command.code, command.body) == (RequestCode.SEND_MESSAGE_V2, b"body")
    assert (header.producer_group, header.topic, header.queue_id) == ("producers", "Orders", 3)
    assert (header.born_time, header.flag, header.sys_flag, header.batch) == (1_000, 7, 0, False)
    assert (header.default_topic, header.default_topic_queue_count) == ("TBW102", 4)
    assert by_name(header.properties) == {
        "color": "red",
        "KEYS": "k1 k2",
        "UNIQ_KEY": ID,
        "WAIT": "true",
        "TAGS": "TagA",
    }


def test_a_message_keeps_the_time_when_it_was_born() -> None:
    born = replace(single(message(), ID), born_time=7)
    command = decode(born.request("producers", QUEUE, 1_000).encode(opaque=1))
    assert parse(SendHeaderV2, command.ext_fields).born_time == 7


def test_the_same_message_can_be_sent_to_another_queue() -> None:
    ready = single(message(), ID)
    requests = [ready.request("producers", QUEUE._replace(queue_id=number), 1_000) for number in (3, 4)]
    commands = [decode(request.encode(opaque=1)) for request in requests]
    assert [parse(SendHeaderV2, command.ext_fields).queue_id for command in commands] == [3, 4]


@pytest.mark.parametrize("size", [COMPRESS_OVER_BYTES, COMPRESS_OVER_BYTES + 1])
def test_a_long_body_is_compressed(size: int) -> None:
    ready = single(message(body=b"x" * size), ID)
    assert len(ready.body) < 100
    assert ready.sys_flag == sys_flag.compressed_with(0, sys_flag.CompressionType.ZLIB)
    assert decompress(ready.body, ready.sys_flag) == b"x" * size


def test_a_short_body_is_not_compressed_nor_is_any_if_that_is_not_wanted() -> None:
    assert single(message(body=b"x" * (COMPRESS_OVER_BYTES - 1)), ID).sys_flag == 0
    assert single(message(body=b"x" * 100_000), ID, compress_over=None).body == b"x" * 100_000


def test_a_batch_is_one_request_with_each_message_whole() -> None:
    messages = [message(body=b"%d" % n, tags=f"T{n}", flag=n) for n in range(3)]
    ready = many(messages, ["a", "b", "c"], "batch")
    command = decode(ready.request("producers", QUEUE, 1_000).encode(opaque=1))
    header = parse(SendHeaderV2, command.ext_fields)
    assert (command.code, header.batch, ready.message_id) == (RequestCode.SEND_BATCH_MESSAGE, True, "a")
    assert by_name(header.properties)["UNIQ_KEY"] == "batch"
    members = batch.decode(command.body)
    assert [(member.body, member.flag) for member in members] == [(b"0", 0), (b"1", 1), (b"2", 2)]
    assert [by_name(member.properties)["UNIQ_KEY"] for member in members] == ["a", "b", "c"]
    assert [by_name(member.properties)["TAGS"] for member in members] == ["T0", "T1", "T2"]


def test_a_message_of_a_batch_has_the_properties_that_it_has_alone() -> None:
    for sent in (message(), message(flag=1), message(keys=("k",), sharding_key="s", properties={"a": "b"})):
        (member,) = batch.decode(many([sent], ["a"], "batch").body)
        assert member == (sent.body, single(sent, "a").properties.encode(), sent.flag)


def test_messages_of_a_batch_are_what_each_of_them_is_alone() -> None:
    plain = [message(), message(body=b"longer"), message(), message(body=bytes(BODY_SIZE_MAX))]
    messages = [*plain, message(flag=1), message(tags="a"), *plain, message(keys=("k",))]
    ids = [f"{ID}{number:02}" for number in range(len(messages))]
    assert outgoing.encode_members(messages, ids) == list(map(outgoing.encode_member, messages, ids))


@pytest.mark.parametrize(
    "refused",
    [
        message(body=b""),
        message(body=bytes(BODY_SIZE_MAX + 1)),
        message(delay_level=1),
        message(delay_ms=1),
        message("A/B"),
    ],
    ids=["no body", "long body", "delayed", "timed", "topic"],
)
def test_one_that_a_batch_cannot_hold_keeps_all_of_it_back(refused: Message) -> None:
    messages = [message(refused.topic), refused, message(refused.topic)]
    with pytest.raises((MessageIllegal, IllegalName)):
        outgoing.encode_members(messages, ["a", "b", "c"])


REFUSED: list[tuple[Message, type[Exception], str]] = [
    (message(topic=""), IllegalName, "topic is empty"),
    (message(topic="a/b"), IllegalName, "use only the characters"),
    (message(topic="x" * 128), IllegalName, "128 characters: shorten it to at most 127"),
    (message(body=b""), MessageIllegal, "body is empty"),
    (message(body=bytes(BODY_SIZE_MAX + 1)), MessageIllegal, f"body of {BODY_SIZE_MAX + 1} bytes: at most"),
    (message(flag=2**31), MessageIllegal, "flag 2147483648: must be a signed number of 32 bits"),
    (message(flag=-(2**31) - 1), MessageIllegal, "flag -2147483649"),
    (message(properties={"UNIQ_KEY": "x"}), MessageIllegal, "'UNIQ_KEY' is RocketMQ's own: choose another"),
    (message(properties={"DELAY": "3"}), MessageIllegal, "'DELAY' is RocketMQ's own"),
    (message(properties={"__RMQ.TRANSIENT.x": "x"}), MessageIllegal, "is RocketMQ's own"),
    (message(properties={"": "x"}), MessageIllegal, "neither name nor value may be empty"),
    (message(properties={"x": ""}), MessageIllegal, "neither name nor value may be empty"),
    (message(properties={"x": "a\x02b"}), MessageIllegal, "holds a separator"),
    (message(properties={"x\x01": "a"}), MessageIllegal, "holds a separator"),
    (
        message(properties={"x": "a" * 32_767}),
        MessageIllegal,
        r"properties take \d+ bytes, the limit is 32767",
    ),
    (message(keys=("a b",)), MessageIllegal, "a key must not be empty nor hold a blank"),
    (message(keys=("",)), MessageIllegal, "a key must not be empty nor hold a blank"),
    (message(tags="a\x02"), MessageIllegal, "holds a separator"),
]


@pytest.mark.parametrize(("refused", "error", "said"), REFUSED, ids=[said for *_, said in REFUSED])
def test_what_breaks_a_limit_is_refused_alone_and_in_a_batch(
    refused: Message, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        single(refused, ID)
    with pytest.raises(error, match=said):
        many([refused], ["a"], "batch")


@pytest.mark.parametrize(
    "accepted",
    [
        message(topic="x" * 127),
        message(topic="%RETRY%" + "x" * 248),
        message(body=bytes(BODY_SIZE_MAX)),
        message(flag=2**31 - 1),
        message(flag=-(2**31)),
        message(properties={"x": "a" * 32_000, "ünï": "😀"}),
        message(tags=""),
    ],
    ids=["topic", "retry topic", "body", "flag", "negative flag", "properties", "no tags"],
)
def test_what_is_just_within_a_limit_is_taken(accepted: Message) -> None:
    assert single(accepted, ID).topic == accepted.topic


def test_a_batch_that_cannot_be_sent_is_refused() -> None:
    with pytest.raises(MessageIllegal, match="batch without messages"):
        many([], [], "batch")
    with pytest.raises(MessageIllegal, match=r"topics \['A', 'B'\]: all must have the same one"):
        many([message("A"), message("B")], ["a", "b"], "batch")
    with pytest.raises(MessageIllegal, match=r"batch of \d+ bytes: .* at most 4194304; send fewer"):
        many([message(body=bytes(BODY_SIZE_MAX // 2))] * 2, ["a", "b"], "batch")


def test_what_may_not_stay_together_makes_no_batch() -> None:
    assert common_sharding_key([message(sharding_key="a")] * 2) == "a"
    with pytest.raises(MessageIllegal, match="batch with several sharding keys"):
        common_sharding_key([message(sharding_key="a"), message()])
    with pytest.raises(MessageIllegal, match="batch with a delay"):
        many([message(delay_level=1)], ["a"], "batch")


def test_a_new_topic_is_made_after_rocketmqs_own_pattern() -> None:
    command = decode(single(message(), ID).request("producers", QUEUE, 1_000).encode(opaque=1))
    header = parse(SendHeaderV2, command.ext_fields)
    assert (header.default_topic, header.default_topic_queue_count) == ("TBW102", 4)


def test_a_delay_level_is_at_most_the_highest_that_the_brokers_have() -> None:
    with pytest.raises(MessageIllegal, match=r"delay level 19: the highest is 18.*delay_level_max="):
        single(message(delay_level=19), ID)
    assert by_name(single(message(delay_level=19), ID, delay_level_max=20).properties)["DELAY"] == "19"
