import pytest

from cometmq.broker.refused import Refused, code_of, outcome
from cometmq.errors import CometMQError, DamagedRecord, MessageIllegal, StoreNotWritable
from cometmq.wire.codes import ResponseCode
from cometmq.wire.frame import Command


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Refused(ResponseCode.NO_PERMISSION, "no"), ResponseCode.NO_PERMISSION),
        (MessageIllegal("too long"), ResponseCode.MESSAGE_ILLEGAL),
        (StoreNotWritable("full"), ResponseCode.SERVICE_NOT_AVAILABLE),
        (DamagedRecord(0, "torn"), ResponseCode.SYSTEM_ERROR),
    ],
)
def test_each_error_has_rocketmqs_code(error: CometMQError, code: ResponseCode) -> None:
    assert code_of(error) is code


def test_a_refusal_says_its_remark() -> None:
    assert str(Refused(ResponseCode.NO_PERMISSION, "no")) == "no"


def test_the_outcome_of_a_request_is_success_or_the_error() -> None:
    command = Command(17, opaque=5)
    done, refused = outcome(command, None), outcome(command, StoreNotWritable("full"))
    assert (done.code, done.remark, done.opaque) == (ResponseCode.SUCCESS, None, 5)
    assert (refused.code, refused.remark) == (ResponseCode.SERVICE_NOT_AVAILABLE, "full")
