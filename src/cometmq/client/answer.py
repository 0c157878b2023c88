"""What a server answered, if it is what was asked for."""

from cometmq.errors import RemoteError
from cometmq.wire.codes import ResponseCode
from cometmq.wire.frame import Command


def successful(answer: Command) -> Command:
    """Give an answer of success. Raises RemoteError for any other."""
    if answer.code != ResponseCode.SUCCESS:
        raise RemoteError(answer.code, answer.remark or "")
    return answer
