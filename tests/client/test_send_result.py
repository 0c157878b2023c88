from cometmq.client.send_result import STORED, SendStatus
from cometmq.wire.codes import ResponseCode


def test_a_message_is_stored_by_success_and_by_what_says_how_safely() -> None:
    assert {
        ResponseCode.SUCCESS,
        ResponseCode.FLUSH_DISK_TIMEOUT,
        ResponseCode.FLUSH_SLAVE_TIMEOUT,
        ResponseCode.SLAVE_NOT_AVAILABLE,
    } == STORED
    assert SendStatus(ResponseCode.SUCCESS) is SendStatus.SEND_OK
    assert ResponseCode.SYSTEM_ERROR not in STORED
