"""A request that the broker refuses: RocketMQ's response code and a text for people."""

from cometmq.errors import AccessError, CometMQError, MessageIllegal, StoreNotWritable
from cometmq.wire.codes import ResponseCode
from cometmq.wire.frame import Command, response


class Refused(CometMQError):
    """Raised by a handler; the peer gets its code and remark, and the connection stays open.

    Attributes:
        code: RocketMQ's response code.
        remark: names the input, the limit and, where there is one, the remedy.
    """

    def __init__(self, code: ResponseCode, remark: str) -> None:
        super().__init__(remark)
        self.code = code
        self.remark = remark


def code_of(error: CometMQError) -> ResponseCode:
    """Return the response code of an error; the response's remark is the error's text."""
    if isinstance(error, Refused):
        return error.code
    if isinstance(error, AccessError):
        return ResponseCode.NO_PERMISSION
    if isinstance(error, MessageIllegal):
        return ResponseCode.MESSAGE_ILLEGAL
    if isinstance(error, StoreNotWritable):
        return ResponseCode.SERVICE_NOT_AVAILABLE
    return ResponseCode.SYSTEM_ERROR


def outcome(command: Command, error: CometMQError | None) -> Command:
    """Return the response to a request: SUCCESS, or the code and text of its error."""
    return response(command) if error is None else response(command, code_of(error), str(error))
