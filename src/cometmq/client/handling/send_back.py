"""Send back messages that could not be handled: the broker delivers them again later or as dead letters.

Usually CONSUMER_SEND_MSG_BACK names the message by its offset. If the broker does not find it so, and for
ordered topics, the whole message is sent to the group's retry topic.
(RocketMQ: sendMessageBack of DefaultMQPushConsumerImpl.java and of ConsumeMessageOrderlyService.java.)
"""

from typing import Final

from cometmq.client.answer import successful
from cometmq.client.handling.outcome import DeadLetter, Retry
from cometmq.client.producer.send_result import STORED
from cometmq.client.routes import Routes
from cometmq.errors import CometMQError, NoRoute, RemoteError
from cometmq.format import properties
from cometmq.format.delay_level import DelayLevels
from cometmq.format.layout import RETRY_PREFIX
from cometmq.format.sys_flag import compression_bits
from cometmq.io.clock import Clock
from cometmq.logs import get_logger
from cometmq.message import MessageQueue, StoredMessage
from cometmq.net.client import Connections
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import DEFAULT_TOPIC, DEFAULT_TOPIC_QUEUES, SendBackHeader, SendHeaderV2, fields

SEND_BACK_TIMEOUT_MS: Final = 5_000
FIRST_DELAY_LEVEL: Final = 3
"""Of the first retry of a whole message; each further one has the next level."""
DEAD_LETTER: Final = -1
"""The delay level that means dead letter."""

_DELAYS: Final = DelayLevels.parse()

_log = get_logger(__name__)


class SendBack:
    """Sends back messages of one group."""

    def __init__(
        self, connections: Connections, routes: Routes, group: str, max_reconsume_times: int, clock: Clock
    ) -> None:
        self._connections = connections
        self._routes = routes
        self._group = group
        self._max_reconsume_times = max_reconsume_times
        self._clock = clock

    async def send(self, queue: MessageQueue, message: StoredMessage, delay_level: int) -> None:
        """Send back a message; delay level 0 leaves the level to the broker, −1 means dead letter.

        Args:
            queue: the queue that it was pulled from.

        Raises:
            NetworkError, NoRoute, RemoteError: no broker accepts it, by its offset or whole.
        """
        header = SendBackHeader(
            physical_offset=message.physical_offset,
            group=self._group,
            delay_level=delay_level,
            origin_message_id=message.offset_id,
            origin_topic=message.topic,
            max_reconsume_times=self._max_reconsume_times,
        )
        command = Command(RequestCode.CONSUMER_SEND_MSG_BACK, ext_fields=fields(header))
        try:
            address = await self._routes.master(queue)
            successful(await self._connections.request(address, command, SEND_BACK_TIMEOUT_MS))
        except CometMQError as error:
            _log.warning("%s cannot be sent back by its id, it is sent whole: %s", message.offset_id, error)
            await self.send_whole(message, delay_level)

    async def send_whole(self, message: StoredMessage, delay_level: int = 0) -> None:
        """Send a whole message to the retry topic. Raises NetworkError, NoRoute or RemoteError."""
        topic = RETRY_PREFIX + self._group
        route = await self._routes.get(topic)
        queue = next(iter(route.publish_queues()), None)
        if queue is None:
            raise NoRoute(f"no queue of topic {topic!r} can be written to")
        address = await self._routes.master(queue)
        times = message.reconsume_times + 1
        if delay_level == DEAD_LETTER:
            times = max(times, self._max_reconsume_times + 1)
        named = dict(message.properties)
        named.setdefault(properties.RETRY_TOPIC, message.topic)
        named.setdefault(properties.ORIGIN_MESSAGE_ID, message.offset_id)
        named[properties.DELAY] = str(delay_level if delay_level > 0 else FIRST_DELAY_LEVEL + times - 1)
        for name in (properties.TRANSACTION_PREPARED, properties.POP_CK, properties.FIRST_POP_TIME):
            named.pop(name, None)
        header = SendHeaderV2(
            producer_group=self._group,
            topic=topic,
            default_topic=DEFAULT_TOPIC,
            default_topic_queue_count=DEFAULT_TOPIC_QUEUES,
            queue_id=queue.queue_id,
            sys_flag=compression_bits(message.sys_flag),
            born_time=self._clock.now_ms(),
            flag=message.flag,
            properties=properties.encode(named).decode(),
            reconsume_times=times,
            max_reconsume_times=self._max_reconsume_times,
        )
        command = Command(RequestCode.SEND_MESSAGE_V2, ext_fields=fields(header), body=message.body)
        answer = await self._connections.request(address, command, SEND_BACK_TIMEOUT_MS)
        if answer.code not in STORED:
            raise RemoteError(answer.code, answer.remark or "")


def level_of(error: Exception) -> int:
    """Return the delay level that a handler asks for by what it raises; 0 for one that grows."""
    if isinstance(error, DeadLetter):
        return DEAD_LETTER
    return error.delay_level if isinstance(error, Retry) else 0


def retry_delay_ms(message: StoredMessage, delay_level: int) -> int:
    """Return after how long a message comes again whose handler raised: at level 0 longer with each delivery.

    The delays are those of RocketMQ's default levels, with and without pops: 10 s, 30 s, 1 min … 2 h.
    """
    level = delay_level or FIRST_DELAY_LEVEL + message.reconsume_times
    return _DELAYS.delays_ms[_DELAYS.nearest(level) - 1]
