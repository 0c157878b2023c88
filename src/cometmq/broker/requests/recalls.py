"""RECALL_MESSAGE: a producer recalls a timed message that is not yet due.

The request stores one more timed message: it is due with the message that it recalls, and neither is
delivered. The broker does not check whether the recalled message exists. (RocketMQ:
RecallMessageProcessor.java; for the handle, SendMessageProcessor.attachRecallHandle.)
"""

from typing import Final

from cometmq.broker.disk_wait import DiskWaits
from cometmq.broker.handlers import Handlers
from cometmq.broker.refused import Refused, code_of
from cometmq.broker.settings import BrokerSettings
from cometmq.broker.state.rates import Rates
from cometmq.broker.state.topics import PERM_WRITE, Topics
from cometmq.broker.timed.delays import Delays, recall_property
from cometmq.errors import CometMQError, FormatError, MessageIllegal, StoreNotWritable
from cometmq.format import properties
from cometmq.format.layout import RETRY_PREFIX
from cometmq.format.properties import (
    BORN_TIMESTAMP,
    PRODUCER_GROUP,
    REAL_TOPIC,
    TAGS,
    TIMER_DEL_UNIQKEY,
    TIMER_DELIVER_MS,
    TIMER_OUT_MS,
    UNIQ_KEY,
)
from cometmq.format.property_numbers import number_or
from cometmq.format.timer.log import TIMER_TOPIC
from cometmq.io.clock import Clock
from cometmq.net.server import Session
from cometmq.store.append import NewMessage
from cometmq.store.store import MessageStore
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command, response
from cometmq.wire.headers import RecallHeader, RecallResponseHeader, fields
from cometmq.wire.recall_handle import RecallHandle
from cometmq.wire.recall_handle import parse as parse_handle

BODY: Final = b"0"
TAG: Final = "_RECALL_TAG_"
SHOWN_LENGTH: Final = 80
"""Most characters of a handle's part that an error shows."""


def handle_of(message: NewMessage, broker_name: str) -> str | None:
    """Return the handle to recall a message by; None if it is not a timed one, or is a consumer's retry."""
    if message.topic != TIMER_TOPIC:
        return None
    named = properties.decode(message.properties)
    topic = named[REAL_TOPIC]
    if topic.startswith(RETRY_PREFIX):
        return None
    time = int(named[TIMER_OUT_MS]) + 1  # a message for this time is rounded down to the same slot
    return str(RecallHandle(topic, broker_name, str(time), named[UNIQ_KEY]))


class Recalls:
    """Handles the requests to recall messages.

    Args:
        store_host: the broker's address as records hold it.
    """

    def __init__(
        self,
        store: MessageStore,
        topics: Topics,
        delays: Delays,
        disk_waits: DiskWaits,
        rates: Rates,
        clock: Clock,
        settings: BrokerSettings,
        *,
        store_host: bytes,
    ) -> None:
        self._store = store
        self._topics = topics
        self._delays = delays
        self._disk_waits = disk_waits
        self._rates = rates
        self._clock = clock
        self.settings = settings
        self._store_host = store_host
        self._constants = {"MSG_REGION": settings.region_id}

    def handlers(self) -> Handlers:
        """Return the handler of each request code."""
        return {
            RequestCode.RECALL_MESSAGE: self.handle,
        }

    def handle(self, session: Session, command: Command, header: RecallHeader) -> Command | None:
        """RECALL_MESSAGE; under SYNC_FLUSH it is answered when the stored message is on the disk."""
        try:
            handle = self._check(header)
            self._append(session, header, handle)
        except CometMQError as error:
            self._rates.refused.total += 1
            return response(command, code_of(error), str(error), self._constants)
        found = fields(RecallResponseHeader(message_id=handle.unique_id))
        answer = response(command, ext_fields=found | self._constants)
        if not self._store.settings.sync_flush or command.is_oneway:
            return answer
        self._disk_waits.add(lambda _: session.send(answer))  # a success even after the timeout
        return None

    def _check(self, header: RecallHeader) -> RecallHandle:
        """Return the checked handle. Raises Refused, in RocketMQ's order and with its codes."""
        own, now = self.settings, self._clock.now_ms()
        if not own.recalls.recall_message_enable:
            raise Refused(
                ResponseCode.NO_PERMISSION, "this broker recalls no messages: set recallMessageEnable=true"
            )
        if not (own.broker_permission & PERM_WRITE or own.recalls.allow_recall_when_broker_not_writeable):
            raise Refused(
                ResponseCode.SERVICE_NOT_AVAILABLE,
                f"this broker takes no messages: brokerPermission is {own.broker_permission}, and "
                "allowRecallWhenBrokerNotWriteable is false",
            )
        if self._topics.find(header.topic) is None:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"topic {header.topic} does not exist")
        try:
            handle = parse_handle(header.recall_handle)
        except FormatError as error:
            raise Refused(ResponseCode.ILLEGAL_OPERATION, str(error)) from None
        if handle.topic != header.topic:
            raise _illegal(f"the handle is of topic {_cut(handle.topic)}, the request of {header.topic}")
        broker_name = own.identity.broker_name
        if handle.broker_name != broker_name:
            raise _illegal(
                f"the handle is of broker {_cut(handle.broker_name)}, and this is {broker_name}: "
                "ask the one that took the message"
            )
        time = number_or(TIMER_DELIVER_MS, handle.time, -1)
        limit_s = self._store.settings.timer_max_delay_sec
        if not 0 < time - now < limit_s * 1000:
            raise _illegal(
                f"message {_cut(handle.unique_id)} is due at {_cut(handle.time)}, now it is {now}: it can be "
                f"recalled as long as it waits, and none waits longer than {limit_s} s (timerMaxDelaySec)"
            )
        return handle

    def _append(self, session: Session, header: RecallHeader, handle: RecallHandle) -> None:
        """Store the timed message that recalls another one. Raises Refused."""
        now = self._clock.now_ms()
        named = {
            TAGS: TAG,
            TIMER_DEL_UNIQKEY: recall_property(handle.topic, handle.unique_id, self._store.settings),
            UNIQ_KEY: handle.unique_id,
            TIMER_DELIVER_MS: handle.time,
            BORN_TIMESTAMP: str(now),
            PRODUCER_GROUP: header.producer_group or "",
        }
        try:
            data = properties.encode({name: value for name, value in named.items() if value})
            message = NewMessage(handle.topic, 0, BODY, data, now, session.born_host, self._store_host, TAG)
            (appended,) = self._store.append([self._delays.waiting(message)])
        except (MessageIllegal, StoreNotWritable) as error:
            raise Refused(
                ResponseCode.SYSTEM_ERROR, f"message {_cut(handle.unique_id)} is not recalled: {error}"
            ) from error
        self._rates.stored.total += 1
        self._rates.stored_bytes.total += appended.size


def _illegal(remark: str) -> Refused:
    return Refused(ResponseCode.ILLEGAL_OPERATION, remark)


def _cut(text: str) -> str:
    """Cut a part of a handle for an error's text."""
    return text[:SHOWN_LENGTH]
