from msgspec.structs import replace

from cometmq.client.producer.send_result import STORED, SendResult, SendStatus, result_of_each
from cometmq.message import MessageQueue
from cometmq.wire.codes import ResponseCode


def test_a_message_is_stored_by_success_and_by_what_says_how_safely() -> None:
    assert {
        ResponseCode.SUCCESS,
        ResponseCode.FLUSH_DISK_TIMEOUT,
        ResponseCode.FLUSH_SLAVE_TIMEOUT,
        ResponseCode.SLAVE_NOT_AVAILABLE,
    } == set(STORED)
    assert SendStatus(ResponseCode.SUCCESS) is SendStatus.SEND_OK
    assert ResponseCode.SYSTEM_ERROR not in STORED


def test_each_message_of_a_batch_has_a_result_of_its_own() -> None:
    whole = SendResult(SendStatus.SEND_OK, "a", "A,B", MessageQueue("Orders", "broker-a", 1), 7)
    assert result_of_each(whole, ["a", "b"]) == [
        replace(whole, offset_id="A"),
        replace(whole, message_id="b", offset_id="B", queue_offset=8),
    ]


def test_one_that_travelled_alone_has_its_result_as_it_is() -> None:
    queue = MessageQueue("Orders", "broker-a", 1)
    alone = SendResult(SendStatus.SEND_OK, "a", "A", queue, 7, "handle")
    assert result_of_each(alone, ["a"]) == [alone]


def test_of_a_batch_that_is_kept_as_one_record_the_first_message_has_the_id() -> None:
    whole = SendResult(SendStatus.SEND_OK, "a", "A", MessageQueue("Orders", "broker-a", 1), 7)
    assert [one.offset_ids for one in result_of_each(whole, ["a", "b"])] == [["A"], []]
