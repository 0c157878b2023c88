"""Find the messages that wait on brokers: delayed, timed, popped and not acknowledged, in a transaction.

A broker keeps them in topics of its own, which are read as any other topic, at CometMQ and Java brokers
alike; ``cluster/waiting.py`` says what their records mean. Not found, since they are in memory only: messages
that were popped in order, and those of a Java broker with ``enablePopBufferMerge``.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from typing import Final, NamedTuple

from cometmq.admin.broker_status import DIGITS_MAX, runtime_info_of
from cometmq.admin.cluster import NOT_FOUND, ClusterAdmin
from cometmq.admin.messages import TOOLS_GROUP
from cometmq.admin.tolerant import Trouble
from cometmq.arguments import TEXT, check, number, or_none
from cometmq.client.answer import answers_of
from cometmq.client.consumer.pull import PullConsumer
from cometmq.client.requests.queue_requests import QueuePull
from cometmq.cluster.waiting import (
    TimerTopic,
    WaitingKind,
    WaitingLine,
    WaitingMessages,
    delayed_message,
    half_message,
    waiting_lines,
)
from cometmq.errors import FormatError, NetworkError, RemoteError, SettingsError
from cometmq.format.delay_level import DEFAULT_LEVELS, SCHEDULE_TOPIC, DelayLevels
from cometmq.format.timer.log import TIMER_TOPIC
from cometmq.format.transaction import HALF_OP_TOPIC, HALF_TOPIC, TRANSACTION_GROUP, ended_offsets
from cometmq.message import MessageQueue, StoredMessage
from cometmq.wire import settings_text
from cometmq.wire.bodies.body import decode
from cometmq.wire.bodies.group import DelayOffsets
from cometmq.wire.bodies.stats import TopicOffset, decode_topic_stats
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.headers import OffsetResponseHeader, QueryConsumerOffsetHeader, TopicHeader, parse

READ_MAX: Final = 100_000
"""Most records that are read of one queue of a broker's own topic."""
LATE_MS: Final = 5_000
"""A timer that is later than this has not delivered what was due meanwhile."""

_QUEUE_ID: Final = 0
_NO_QUEUE: Final = TopicOffset()
_TIMER_MAX_S: Final = 3 * 86_400
_TRANSACTION_TIMEOUT_MS: Final = 6_000


class Unread(NamedTuple):
    """Records of a topic on a broker that were not read, as they were too many."""

    topic: str
    broker_name: str
    record_count: int


class WaitingReport(NamedTuple):
    """The messages that wait on all brokers; ``troubles`` are those that could not be asked."""

    lines: list[WaitingLine]
    unread: list[Unread]
    troubles: list[Trouble]


async def waiting(
    cluster: ClusterAdmin,
    *,
    now_ms: int,
    topic: str | None = None,
    kinds: Collection[WaitingKind] = tuple(WaitingKind),
    read_max: int = READ_MAX,
) -> WaitingReport:
    """Find the messages that wait on all masters, by kind, topic and group.

    Args:
        now_ms: the present time, ms since the epoch.
        topic: only messages for this topic.
        kinds: only these.
        read_max: most records to read of one queue: the next ones due of a delay level, the newest ones of
            the timer topic, the oldest ones of the half topic.

    Raises NoRoute if there is no broker, NetworkError if no name server answers.
    """
    check(or_none(TEXT), topic=topic)
    check(number(1), read_max=read_max)
    masters = await cluster.masters()
    servers = ";".join(cluster.name_servers)
    async with PullConsumer(servers, TOOLS_GROUP, credentials=cluster.credentials, tls=cluster.tls) as reader:
        brokers = [
            _OwnTopics(cluster, reader, name, address, now_ms, read_max) for name, address in masters.items()
        ]
        found = await asyncio.gather(*(broker.find(kinds) for broker in brokers))
    all_of_them = [one for of_broker in found if not isinstance(of_broker, Trouble) for one in of_broker]
    chosen = [one for one in all_of_them if one.kind in kinds and topic in (None, one.topic)]
    unread = sorted(one for broker in brokers for one in broker.unread)
    troubles = [one for one in found if isinstance(one, Trouble)]
    return WaitingReport(waiting_lines(chosen, now_ms), unread, troubles)


class _OwnTopics:
    """The topics in which one broker keeps messages that wait.

    Attributes:
        unread: what was not read of them.
    """

    def __init__(
        self,
        cluster: ClusterAdmin,
        reader: PullConsumer,
        broker_name: str,
        address: str,
        now_ms: int,
        read_max: int,
    ) -> None:
        self._cluster = cluster
        self._reader = reader
        self._broker_name = broker_name
        self._address = address
        self._now_ms = now_ms
        self._read_max = read_max
        self.unread: list[Unread] = []

    async def find(self, kinds: Collection[WaitingKind]) -> list[WaitingMessages] | Trouble:
        """Find messages of some kinds, or why that fails; others may be among them."""
        try:
            with answers_of(self._address):
                return await self._find(kinds)
        except (RemoteError, NetworkError) as error:
            return Trouble(self._broker_name, self._address, str(error))

    async def _find(self, kinds: Collection[WaitingKind]) -> list[WaitingMessages]:
        answer = await self._cluster.ask(self._address, RequestCode.GET_BROKER_CONFIG)
        settings = settings_text.decode(answer.body)
        found: list[WaitingMessages] = []
        if WaitingKind.DELAYED in kinds:
            found += await self._delayed(settings)
        if WaitingKind.TIMED in kinds or WaitingKind.POPPED in kinds:
            found += await self._in_timer(settings)
        if WaitingKind.HALF in kinds:
            found += await self._halves(settings)
        return found

    async def _delayed(self, settings: Mapping[str, str]) -> list[WaitingMessages]:
        try:
            levels = DelayLevels.parse(settings.get("messageDelayLevel", DEFAULT_LEVELS))
        except SettingsError as error:
            raise FormatError(str(error)) from None
        answer = await self._cluster.ask(self._address, RequestCode.GET_ALL_DELAY_OFFSET)
        reached = decode(DelayOffsets, answer.body).offsets
        found: list[WaitingMessages] = []
        for queue_id, ends in (await self._ends(SCHEDULE_TOPIC)).items():
            begin = max(reached.get(queue_id + 1, 0), ends.min_offset)
            messages = self._oldest(SCHEDULE_TOPIC, queue_id, begin, ends.max_offset)
            found += [delayed_message(message, levels) async for message in messages]
        return found

    async def _in_timer(self, settings: Mapping[str, str]) -> list[WaitingMessages]:
        """Read what was stored since the longest time that a message may wait."""
        ends = (await self._ends(TIMER_TOPIC)).get(_QUEUE_ID, _NO_QUEUE)
        if ends.min_offset == ends.max_offset:
            return []
        longest_ms = _number(settings, "timerMaxDelaySec", _TIMER_MAX_S) * 1000
        queue = MessageQueue(TIMER_TOPIC, self._broker_name, _QUEUE_ID)
        first = await self._reader.offset_by_time(queue, self._now_ms - longest_ms)
        begin = max(first, ends.min_offset, ends.max_offset - self._read_max)
        self._skip(TIMER_TOPIC, begin - max(first, ends.min_offset))
        info = await runtime_info_of(self._cluster.connections, self._address)
        late_ms = _number(info, "timerReadBehind", 0)
        content = TimerTopic(self._now_ms - (late_ms if late_ms > LATE_MS else 0))
        async for message in self._messages(TIMER_TOPIC, _QUEUE_ID, begin, ends.max_offset):
            content.add(message)
        return content.waiting()

    async def _halves(self, settings: Mapping[str, str]) -> list[WaitingMessages]:
        timeout_ms = _number(settings, "transactionTimeOut", _TRANSACTION_TIMEOUT_MS)
        ended: set[int] = set()
        async for op in self._unsettled(HALF_OP_TOPIC):
            ended.update(ended_offsets(op.tags, op.body))
        return [
            half_message(message, timeout_ms)
            async for message in self._unsettled(HALF_TOPIC)
            if message.queue_offset not in ended
        ]

    async def _unsettled(self, topic: str) -> AsyncIterator[StoredMessage]:
        """Iterate over the half messages, or op messages, of which others may still be waiting."""
        ends = (await self._ends(topic)).get(_QUEUE_ID, _NO_QUEUE)
        if ends.min_offset == ends.max_offset:
            return
        settled = await self._settled(topic)
        async for message in self._oldest(topic, _QUEUE_ID, max(settled, ends.min_offset), ends.max_offset):
            yield message

    async def _settled(self, topic: str) -> int:
        header = QueryConsumerOffsetHeader(TRANSACTION_GROUP, topic, _QUEUE_ID, set_zero_if_not_found=False)
        try:
            answer = await self._cluster.ask(self._address, RequestCode.QUERY_CONSUMER_OFFSET, header)
        except RemoteError as error:
            if error.code != ResponseCode.QUERY_NOT_FOUND:
                raise
            return 0
        return parse(OffsetResponseHeader, answer.ext_fields).offset

    async def _ends(self, topic: str) -> dict[int, TopicOffset]:
        """Return the ends of a topic's queues by id; none if the broker does not have the topic."""
        code = RequestCode.GET_TOPIC_STATS_INFO
        try:
            answer = await self._cluster.ask(self._address, code, TopicHeader(topic))
        except RemoteError as error:
            if error.code not in NOT_FOUND:
                raise
            return {}
        offsets = decode_topic_stats(answer.body).offsets
        return {queue.queue_id: offsets[queue] for queue in sorted(offsets)}

    async def _oldest(self, topic: str, queue_id: int, begin: int, end: int) -> AsyncIterator[StoredMessage]:
        """Iterate over the messages of a queue, at most ``read_max``."""
        last = min(end, begin + self._read_max)
        self._skip(topic, end - last)
        async for message in self._messages(topic, queue_id, begin, last):
            yield message

    async def _messages(
        self, topic: str, queue_id: int, begin: int, end: int
    ) -> AsyncIterator[StoredMessage]:
        queue = MessageQueue(topic, self._broker_name, queue_id)
        while begin < end:
            pulled = await self._reader.pull_stored(QueuePull(queue, begin))
            for message in pulled.messages:
                if message.queue_offset < end:
                    yield message
            if pulled.next_offset <= begin:
                return
            begin = pulled.next_offset

    def _skip(self, topic: str, count: int) -> None:
        if count > 0:
            self.unread.append(Unread(topic, self._broker_name, count))


def _number(settings: Mapping[str, str], name: str, default: int) -> int:
    text = settings.get(name, "")
    return int(text) if text.isdecimal() and len(text) <= DIGITS_MAX else default
