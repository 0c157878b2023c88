"""A request that the broker refuses: RocketMQ's response code and a text for people."""

from cometmq.errors import CometMQError
from cometmq.wire.codes import ResponseCode


class Refused(CometMQError):
    """Raised by a handler, answered to the peer as it is; the connection lives on.

    Attributes:
        code: RocketMQ's response code.
        remark: names the input, the limit and, where there is one, the remedy.
    """

    def __init__(self, code: ResponseCode, remark: str) -> None:
        super().__init__(f"{code.name}: {remark}")
        self.code = code
        self.remark = remark
