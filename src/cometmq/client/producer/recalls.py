"""Taking back timed messages: which one a handle means, the request to its broker, and the answer.

Source: RocketMQ ``client/impl/producer/DefaultMQProducerImpl.java`` (recallMessage).
"""

from typing import Final

from cometmq.errors import FormatError, RemoteError, SettingsError
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import RecallHeader, RecallResponseHeader, fields, parse
from cometmq.wire.recall_handle import RecallHandle
from cometmq.wire.recall_handle import parse as parse_handle

_REMEDIES: Final[dict[int, str]] = {
    ResponseCode.NO_PERMISSION: "let its recallMessageEnable be true",
    ResponseCode.ILLEGAL_OPERATION: "a message can be taken back until it is due, at the broker that took it",
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: "RocketMQ's brokers take messages back from 5.3.2 on",
}


def wanted(topic: str, handle: str | None) -> RecallHandle:
    """Give which message a handle means. Raises SettingsError if it cannot be one of the topic."""
    if handle is None:
        raise SettingsError(
            f"recall handle None, topic {topic!r}: only a message that waits for a time can be taken back; "
            "send it with delay_ms or deliver_time, to a broker that gives handles"
        )
    try:
        found = parse_handle(handle)
    except FormatError as error:
        raise SettingsError(str(error)) from None
    if found.topic != topic:
        raise SettingsError(
            f"the recall handle is of topic {found.topic!r}, not {topic!r}: give the topic that was sent to"
        )
    return found


def recall_request(group: str, message: RecallHandle) -> Command:
    """Make the request that takes a message back."""
    header = RecallHeader(message.topic, str(message), group, message.broker_name)
    return Command(RequestCode.RECALL_MESSAGE, ext_fields=fields(header))


def recalled(answer: Command, message: RecallHandle) -> str:
    """Give the id of the message that was taken back. Raises RemoteError, with the remedy if one is known."""
    if answer.code == ResponseCode.SUCCESS:
        return parse(RecallResponseHeader, answer.ext_fields).message_id
    remark = (
        f"{answer.remark or 'refused'} (message {message.unique_id} of topic {message.topic!r}, due at "
        f"{message.time}, broker {message.broker_name!r}"
    )
    remedy = _REMEDIES.get(answer.code)
    raise RemoteError(answer.code, f"{remark})" if remedy is None else f"{remark}: {remedy})")
