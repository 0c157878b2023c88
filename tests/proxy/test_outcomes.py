import pytest

from cometmq.errors import CometMQError, NetworkError, NoRoute, RemoteError, RequestTimeout
from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.outcomes import OK, Failure, code_of_broker, common_status, status_of
from cometmq.wire.codes import ResponseCode


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Failure(pb.ILLEGAL_TOPIC, "why"), pb.ILLEGAL_TOPIC),
        (RemoteError(ResponseCode.SYSTEM_BUSY, "why"), pb.TOO_MANY_REQUESTS),
        (RemoteError(ResponseCode.SYSTEM_ERROR, "why"), pb.INTERNAL_SERVER_ERROR),
        (NoRoute("why"), pb.TOPIC_NOT_FOUND),
        (RequestTimeout("why"), pb.PROXY_TIMEOUT),
        (NetworkError("why"), pb.INTERNAL_SERVER_ERROR),
    ],
)
def test_an_error_has_a_code_and_its_text(error: CometMQError, code: pb.Code) -> None:
    status = status_of(error)
    assert status.code == code and "why" in status.message


def test_parts_with_different_outcomes_have_multiple_results() -> None:
    refused = pb.Status(code=pb.FORBIDDEN)
    assert common_status([OK, OK]) == OK
    assert common_status([refused]) == refused
    assert common_status([OK, refused]).code == pb.MULTIPLE_RESULTS


def test_brokers_codes_are_translated() -> None:
    assert code_of_broker(0) == pb.OK
    assert code_of_broker(ResponseCode.FLUSH_DISK_TIMEOUT) == pb.MASTER_PERSISTENCE_TIMEOUT
    assert code_of_broker(4711) == pb.INTERNAL_SERVER_ERROR
