"""What a slave answers to requests that only its master can handle: it stores nothing itself.

(RocketMQ: SendMessageProcessor.java and PullMessageProcessor.java, rejectRequest; AdminBrokerProcessor.java,
validateSlave; EndTransactionProcessor.java.)
"""

from collections.abc import Callable
from typing import Any, Final

from cometmq.broker.handlers import Handler, Handlers
from cometmq.broker.safe_sends import REJECTED
from cometmq.net.session import Session
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command, response

READ_ONLY: Final = (
    "Can't modify topic or subscription group from slave broker, please execute it from master broker."
)
"""RocketMQ's words."""
PULLS: Final = (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)

_REFUSED: Final = (
    dict.fromkeys((RequestCode.CONSUMER_SEND_MSG_BACK,), (ResponseCode.SYSTEM_BUSY, REJECTED))
    | dict.fromkeys(
        (RequestCode.END_TRANSACTION, RequestCode.RECALL_MESSAGE),
        (ResponseCode.SLAVE_NOT_AVAILABLE, "this broker is a slave: send it to its master"),
    )
    | dict.fromkeys(
        (
            RequestCode.UPDATE_AND_CREATE_TOPIC,
            RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
            RequestCode.DELETE_TOPIC_IN_BROKER,
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
            RequestCode.DELETE_SUBSCRIPTIONGROUP,
        ),
        (ResponseCode.SYSTEM_ERROR, READ_ONLY),
    )
)


def of_slave(
    handlers: Handlers, *, answers_pulls: bool, may_be_read: Callable[[], bool] = lambda: True
) -> Handlers:
    """Return the handlers of a slave: those that need a master refuse, pulls unless it may be read.

    Args:
        answers_pulls: whether the settings let it be read.
        may_be_read: returns whether the slave's log is known to have nothing that its master lacks.
    """
    refused = {code: _refusing(*why) for code, why in _REFUSED.items()}
    for code in PULLS:
        refuse = _refusing(ResponseCode.SYSTEM_BUSY, REJECTED)
        refused[code] = _if(may_be_read, handlers[code], refuse) if answers_pulls else refuse
    return {**handlers, **refused}


def _if(holds: Callable[[], bool], handler: Handler, other: Handler) -> Handler:
    """Return a handler that asks one of two."""

    def handle(session: Session, command: Command, header: Any) -> Command | None:
        return (handler if holds() else other)(session, command, header)

    return handle


def _refusing(code: ResponseCode, remark: str) -> Handler:
    """Return a handler that refuses."""

    def refuse(_session: Session, command: Command, _header: Any) -> Command:
        return response(command, code, remark)

    return refuse
