"""Recall delayed messages: check the handle, build the request, decode the response.

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
    ResponseCode.ILLEGAL_OPERATION: "a message can be recalled until it is due, at the broker that stored it",
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: "RocketMQ brokers recall messages from 5.3.2 on",
}


def checked_handle(topic: str, handle: str | None) -> RecallHandle:
    """Decode a recall handle. Raises SettingsError if it is None, illegal or of another topic."""
    if handle is None:
        raise SettingsError(
            f"recall handle None, topic {topic!r}: only a delayed message can be recalled; "
            "send it with delay_ms or deliver_time, to a broker that returns handles"
        )
    try:
        found = parse_handle(handle)
    except FormatError as error:
        raise SettingsError(str(error)) from None
    if found.topic != topic:
        raise SettingsError(
            f"the recall handle is of topic {found.topic!r}, not {topic!r}: give the message's topic"
        )
    return found


def recall_request(group: str, message: RecallHandle) -> Command:
    """Build the request that recalls a message."""
    header = RecallHeader(message.topic, str(message), group, message.broker_name)
    return Command(RequestCode.RECALL_MESSAGE, ext_fields=fields(header))


def recalled_id(answer: Command, message: RecallHandle) -> str:
    """Return the id of the recalled message. Raises RemoteError, with the remedy if one is known."""
    if answer.code == ResponseCode.SUCCESS:
        return parse(RecallResponseHeader, answer.ext_fields).message_id
    remark = (
        f"{answer.remark or 'refused'} (message {message.unique_id} of topic {message.topic!r}, due at "
        f"{message.time}, broker {message.broker_name!r}"
    )
    remedy = _REMEDIES.get(answer.code)
    raise RemoteError(answer.code, f"{remark})" if remedy is None else f"{remark}: {remedy})")
