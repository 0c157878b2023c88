import pytest

from cometmq.client.answer import successful
from cometmq.errors import RemoteError
from cometmq.wire.codes import ResponseCode
from cometmq.wire.frame import Command


def test_an_answer_of_success_is_given_on_and_another_one_is_raised() -> None:
    answer = Command(ResponseCode.SUCCESS)
    assert successful(answer) is answer
    with pytest.raises(RemoteError, match="no"):
        successful(Command(ResponseCode.NO_PERMISSION, remark="no"))
