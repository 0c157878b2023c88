from collections.abc import Callable

import pytest

from cometmq.wire.headers import message as h
from cometmq.wire.headers.fields import Header, fields, parse


@pytest.mark.parametrize(
    ("header", "java_name"),
    [
        (h.SendHeader, "SendMessageRequestHeader"),
        (h.SendHeaderV2, "SendMessageRequestHeaderV2"),
        (h.SendResponseHeader, "SendMessageResponseHeader"),
        (h.PullHeader, "PullMessageRequestHeader"),
        (h.PullResponseHeader, "PullMessageResponseHeader"),
        (h.QueryMessageHeader, "QueryMessageRequestHeader"),
        (h.QueryMessageResponseHeader, "QueryMessageResponseHeader"),
        (h.ViewMessageHeader, "ViewMessageRequestHeader"),
        (h.SendBackHeader, "ConsumerSendMsgBackRequestHeader"),
        (h.EndTransactionHeader, "EndTransactionRequestHeader"),
        (h.CheckTransactionStateHeader, "CheckTransactionStateRequestHeader"),
        (h.PushReplyHeader, "ReplyMessageRequestHeader"),
        (h.RecallHeader, "RecallMessageRequestHeader"),
        (h.RecallResponseHeader, "RecallMessageResponseHeader"),
    ],
)
def test_fields_are_those_of_the_java_class(
    header: type[Header], java_name: str, differences: Callable[[type[Header], str], list[str]]
) -> None:
    assert differences(header, java_name) == []


V2_FIELDS = {  # as a Java client sends them
    "a": "pg1",
    "b": "TopicA",
    "c": "TBW102",
    "d": "4",
    "e": "3",
    "f": "0",
    "g": "1795242489764",
    "h": "0",
    "i": "UNIQ_KEY\x01FD00\x02WAIT\x01true\x02TAGS\x01TagA\x02",
    "j": "0",
    "k": "false",
    "m": "false",
    "n": "broker-a",
}


def test_a_short_named_send_reads_as_a_send() -> None:
    header = parse(h.SendHeaderV2, V2_FIELDS)
    assert isinstance(header, h.SendHeader)
    assert (header.producer_group, header.topic, header.queue_id) == ("pg1", "TopicA", 3)
    assert header.born_time == 1_795_242_489_764
    assert header.properties.endswith("TAGS\x01TagA\x02")
    assert header.max_reconsume_times is None and header.batch is False
    assert fields(header) == V2_FIELDS


def test_both_sends_have_the_same_fields_in_the_same_order() -> None:
    assert h.SendHeaderV2.__struct_fields__ == h.SendHeader.__struct_fields__
    assert h.SendHeaderV2.__struct_encode_fields__ == tuple("abcdefghijklmn")
    assert h.SendHeaderV2.__struct_defaults__ == h.SendHeader.__struct_defaults__


def test_a_send_without_what_old_clients_leave_out_is_read() -> None:
    needed = {name: V2_FIELDS[name] for name in "abcdefgh"}
    assert parse(h.SendHeaderV2, needed).properties == ""


def test_a_pull_of_a_cpp_client_is_read() -> None:
    header = parse(
        h.PullHeader,
        {
            "consumerGroup": "g",
            "topic": "T",
            "queueId": "0",
            "queueOffset": "5",
            "maxMsgNums": "32",
            "sysFlag": "6",
            "commitOffset": "0",
            "subVersion": "0",
            "suspendTimeoutMillis": "15000",
            "subscription": "TagA || TagB",
        },
    )
    assert header.sys_flag == h.PullFlag.SUBSCRIPTION | h.PullFlag.SUSPEND
    assert header.expression_type is None and header.max_message_bytes is None
