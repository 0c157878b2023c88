from collections.abc import Callable

import pytest

from cometmq.wire import headers as h


@pytest.mark.parametrize(
    ("header", "java_name"),
    [
        (h.PopHeader, "PopMessageRequestHeader"),
        (h.PopResponseHeader, "PopMessageResponseHeader"),
        (h.AckHeader, "AckMessageRequestHeader"),
        (h.ChangeInvisibleHeader, "ChangeInvisibleTimeRequestHeader"),
        (h.ChangeInvisibleResponseHeader, "ChangeInvisibleTimeResponseHeader"),
        (h.PeekHeader, "PeekMessageRequestHeader"),
        (h.NotificationHeader, "NotificationRequestHeader"),
        (h.NotificationResponseHeader, "NotificationResponseHeader"),
        (h.PollingInfoHeader, "PollingInfoRequestHeader"),
        (h.PollingInfoResponseHeader, "PollingInfoResponseHeader"),
    ],
)
def test_fields_are_those_of_the_java_class(
    header: type[h.Header], java_name: str, differences: Callable[[type[h.Header], str], list[str]]
) -> None:
    assert differences(header, java_name) == []


def test_a_pop_of_the_java_client_is_parsed() -> None:
    sent = {
        "consumerGroup": "g",
        "topic": "T",
        "queueId": "-1",
        "maxMsgNums": "32",
        "invisibleTime": "60000",
        "pollTime": "15000",
        "bornTime": "1795602262251",
        "initMode": "1",
        "expType": "TAG",
        "exp": "*",
        "order": "false",
        "bname": "broker-a",
    }
    header = h.parse(h.PopHeader, sent)
    assert (header.queue_id, header.max_msg_nums, header.order) == (-1, 32, False)
    assert h.fields(header) == sent


def test_an_answer_has_the_names_that_the_java_client_reads() -> None:
    assert h.fields(h.PopResponseHeader(5, 15_000, 3, 0, "0 3 0", "0 3 0")) == {
        "popTime": "5",
        "invisibleTime": "15000",
        "reviveQid": "3",
        "restNum": "0",
        "startOffsetInfo": "0 3 0",
        "msgOffsetInfo": "0 3 0",
    }
