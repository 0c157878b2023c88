"""CONSUMER_SEND_MSG_BACK: retry a message that a consumer could not handle, or move it to the dead letters.

It is delivered again after a delay: of the level in the request, or of one that rises with each retry.
(RocketMQ: AbstractSendMessageProcessor.consumerSendMsgBack.)
"""

from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Final

from cometmq.broker.handlers import Handlers
from cometmq.broker.reads import Reads
from cometmq.broker.refused import Refused, outcome
from cometmq.broker.state.groups import Groups
from cometmq.broker.state.offsets import key_of
from cometmq.broker.state.rates import Rates
from cometmq.broker.state.saved_entries import Change
from cometmq.broker.state.topics import PERM_WRITE, Topics
from cometmq.broker.timed.delays import Delays
from cometmq.errors import CometMQError, StoreNotWritable
from cometmq.format import properties
from cometmq.format.layout import DLQ_PREFIX, RETRY_PREFIX
from cometmq.format.message_id import offset_message_id
from cometmq.format.properties import DELAY, ORIGIN_MESSAGE_ID, RETRY_TOPIC, TAGS, WAIT
from cometmq.format.record import Record, decode
from cometmq.net.boundary import attempt
from cometmq.net.server import Session
from cometmq.store.append import NewMessage
from cometmq.store.store import MessageStore
from cometmq.wire.bodies import GroupConfig, TopicConfig
from cometmq.wire.codes import RequestCode, ResponseCode, Version
from cometmq.wire.frame import Command, response
from cometmq.wire.headers import SendBackHeader

FIRST_DELAY_LEVEL: Final = 3
"""Delay level of the first retry if the request has none; it rises with each further retry."""

RECONSUME_TIMES_MAX: Final = 2**31 - 1
"""The largest number that a record can hold."""


class Retries:
    """Stores messages that consumers send back for another delivery."""

    def __init__(
        self,
        store: MessageStore,
        reads: Reads,
        topics: Topics,
        groups: Groups,
        rates: Rates,
        delays: Delays,
        *,
        store_host: bytes,
        permission: int,
    ) -> None:
        self._store = store
        self._reads = reads
        self._topics = topics
        self._groups = groups
        self._rates = rates
        self._store_host = store_host
        self._permission = permission
        self._turn = count()
        self._delays = delays

    def handlers(self) -> Handlers:
        """Return the handler of each request code."""
        return {
            RequestCode.CONSUMER_SEND_MSG_BACK: self.send_back,
        }

    def send_back(self, session: Session, command: Command, header: SendBackHeader) -> Command | None:
        """CONSUMER_SEND_MSG_BACK: append the message again, to the group's retry topic or dead letters."""
        group = self._groups.find_or_create(header.group)
        if group is None:
            raise Refused(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group not exist, {header.group}: create it, "
                "or set autoCreateSubscriptionGroup",
            )
        if not self._permission & PERM_WRITE:
            raise Refused(ResponseCode.NO_PERMISSION, "this broker takes no messages: see brokerPermission")
        if group.retry_queue_count <= 0:
            return response(command)
        reading = self._store.readings.record(header.physical_offset)
        append = partial(self._append, session, command, header, group)
        return self._reads.answer(session, command, reading, append)

    def _append(
        self,
        session: Session,
        command: Command,
        header: SendBackHeader,
        group: GroupConfig,
        data: bytes | None,
    ) -> Command | None:
        """Append the message once its topic is saved; answer once that is published, too."""
        if data is None:
            raise Refused(
                ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {header.physical_offset}"
            )
        record = decode(data)
        is_dead = (
            record.reconsume_times >= _times_max(header, group, command.version) or header.delay_level < 0
        )
        if is_dead:
            topic = self._topics.find_or_create(DLQ_PREFIX + group.group)
        else:
            topic = self._topics.find_or_create(RETRY_PREFIX + group.group, group.retry_queue_count)
        if not topic.perm & PERM_WRITE:
            raise Refused(
                ResponseCode.NO_PERMISSION,
                f"the topic[{topic.topic}] sending message is forbidden: its perm is {topic.perm}",
            )

        def append() -> Command:
            message = self._delays.waiting(self._message(record, header, topic, is_dead))
            (appended,) = self._store.append([message])
            self._rates.stored.total += 1
            self._rates.stored_bytes.total += appended.size
            self._rates.sent_back[key_of(group.group, _first_topic(record))] += 1
            return response(command)

        creation = self._topics.creation(topic.topic)
        if creation is None:
            return append()
        creation.when_saved(partial(_append_and_answer, session, command, creation, append))
        return None

    def _message(
        self, record: Record, header: SendBackHeader, topic: TopicConfig, is_dead: bool
    ) -> NewMessage:
        """Build the message to append for a record that was sent back."""
        named = properties.decode(record.properties)
        named[RETRY_TOPIC] = _first_topic(record)
        named.setdefault(ORIGIN_MESSAGE_ID, offset_message_id(record.store_host, record.physical_offset))
        named[WAIT] = "false"
        level = header.delay_level or FIRST_DELAY_LEVEL + record.reconsume_times
        named[DELAY] = "0" if is_dead else str(self._delays.levels.nearest(level))
        return NewMessage(
            topic.topic,
            next(self._turn) % max(topic.write_queue_count, 1),
            record.body,
            properties.encode(named),
            record.born_time,
            record.born_host,
            self._store_host,
            named.get(TAGS),
            record.flag,
            record.sys_flag,
            min(record.reconsume_times + 1, RECONSUME_TIMES_MAX),
        )


def _append_and_answer(
    session: Session,
    command: Command,
    creation: Change[TopicConfig],
    append: Callable[[], Command],
    error: StoreNotWritable | None,
) -> None:
    """Append a message whose topic is saved; answer once the topic is published, or with the error."""

    def answer() -> None:
        try:
            if error is not None:
                raise error
            appended = append()
        except CometMQError as refused:
            appended = outcome(command, refused)
        if not command.is_oneway:
            creation.when_known(partial(session.send, appended))

    attempt(session, (command,), answer)


def _first_topic(record: Record) -> str:
    """Return the topic that a message was sent to, whether it is in a retry topic by now."""
    return properties.decode(record.properties).get(RETRY_TOPIC, record.topic)


def _times_max(header: SendBackHeader, group: GroupConfig, version: int) -> int:
    if version >= Version.V3_4_9 and header.max_reconsume_times is not None:
        return header.max_reconsume_times
    return group.retry_max_times
