"""Checks requests that name a message by its place in the log: whose it is, is known when it is read.

Such a request may name a topic, too, but nobody else compares them: whoever may read one topic could read all
by their places. RocketMQ 5.5.0 does not check this.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from cometmq.access.guard import Guard
from cometmq.broker.handlers import Handler, Handlers
from cometmq.broker.reads import Reads
from cometmq.broker.state.producers import ConnectedMember
from cometmq.cluster.system_names import CHECK_MAX_TIME_TOPIC
from cometmq.errors import AccessError, FormatError
from cometmq.format import properties
from cometmq.format.delay_level import SCHEDULE_TOPIC
from cometmq.format.message_id import parse_offset_message_id
from cometmq.format.properties import REAL_TOPIC
from cometmq.format.record import decode
from cometmq.format.timer.log import TIMER_TOPIC
from cometmq.format.transaction import HALF_TOPIC
from cometmq.net.session import Session
from cometmq.store.store import MessageStore
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command

_PLACES: Final[dict[RequestCode, Callable[[Any], int]]] = {
    RequestCode.VIEW_MESSAGE_BY_ID: lambda header: header.physical_offset,
    RequestCode.CONSUMER_SEND_MSG_BACK: lambda header: header.physical_offset,
    RequestCode.END_TRANSACTION: lambda header: header.physical_offset,
    RequestCode.RESUME_CHECK_HALF_MESSAGE: lambda header: _offset_in(header.message_id),
    RequestCode.CONSUME_MESSAGE_DIRECTLY: lambda header: _offset_in(header.message_id),
}
"""For each such request what returns the place in its header. Raises FormatError."""

_WAITING: Final = frozenset((HALF_TOPIC, CHECK_MAX_TIME_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC))
"""The topics in which messages wait for their own, which the broker has noted in them."""


class StoredRecords:
    """Checks requests by the topics of the messages that they name by place."""

    def __init__(self, store: MessageStore, reads: Reads, guard: Guard) -> None:
        self._store = store
        self._reads = reads
        self._guard = guard

    def checked(self, handlers: Handlers) -> Handlers:
        """Return handlers of which those of such requests check first."""
        return {
            code: partial(self._handle, handle) if code in _PLACES else handle
            for code, handle in handlers.items()
        }

    def _handle(self, handle: Handler, session: Session, command: Command, header: Any) -> Command | None:
        if self._guard.may_all(command):
            return handle(session, command, header)
        try:
            offset = _PLACES[RequestCode(command.code)](header)
        except FormatError:
            return handle(session, command, header)  # which refuses it

        def check(data: bytes | None) -> Command | None:
            if data is not None:
                refusal = self._guard.refusal_of_stored(command, session.peer[0], _topic_of(data))
                if refusal is not None:
                    raise AccessError(refusal)
            return handle(session, command, header)

        return self._reads.answer(session, command, self._store.readings.record(offset), check)


def may_be_sent(
    guard: Guard | None, session: Session, member: ConnectedMember, command: Command, record: bytes
) -> bool:
    """Return whether a consumer may be sent the message of a CONSUME_MESSAGE_DIRECTLY."""
    return guard is None or guard.may_receive(member.user, command, _topic_of(record), session.peer[0])


def _topic_of(data: bytes) -> str:
    """Return the topic of a record, or the one that it waits to be delivered to."""
    record = decode(data)
    if record.topic not in _WAITING:
        return record.topic
    return properties.decode(record.properties).get(REAL_TOPIC, record.topic)


def _offset_in(message_id: str | None) -> int:
    return parse_offset_message_id(message_id or "").physical_offset
