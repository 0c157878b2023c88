import pytest

from cometmq.broker.refused import Refused, code_of
from cometmq.errors import CometMQError, DamagedRecord, MessageIllegal, StoreNotWritable
from cometmq.wire.codes import ResponseCode


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
