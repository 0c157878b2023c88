"""Requests of a consumer that pops: pop messages, acknowledge them, change their invisible times.

A popped message is hidden from the other members of the group for its *invisible time*. Its receipt handle is
in its property POP_CK. (RocketMQ: MQClientAPIImpl.java, processPopResponse.)
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator
from enum import Enum, auto
from typing import Final, NamedTuple

from msgspec.structs import replace

from cometmq.client.answer import successful
from cometmq.client.requests.queue_requests import PULL_GRACE_MS, SQL92
from cometmq.client.routes import Routes
from cometmq.cluster.assignment import ALL_QUEUES
from cometmq.errors import FormatError, NetworkError, RemoteError
from cometmq.filter import tag
from cometmq.format.pop import bit_set
from cometmq.format.pop.names import flag_of, normal_topic, retry_topic
from cometmq.format.pop.offset_info import (
    QueueKey,
    parse_begin_offsets,
    parse_offsets,
    parse_order_counts,
)
from cometmq.format.pop.receipt import ReceiptHandle
from cometmq.format.properties import FIRST_POP_TIME, POP_CK
from cometmq.format.record import decode_many
from cometmq.format.stored import message_as_stored
from cometmq.message import MessageQueue, StoredMessage
from cometmq.net.client import Connections
from cometmq.wire import headers as h
from cometmq.wire.bodies.body import encode
from cometmq.wire.bodies.heartbeat import SubscriptionData
from cometmq.wire.bodies.pop import BatchAckEntry, BatchAckRequest
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command

FROM_FIRST: Final = 0
FROM_LAST: Final = 1


class PopStatus(Enum):
    """The outcome of a pop. POLLING_FULL: the broker holds too many pops, so it did not hold this one."""

    FOUND = auto()
    NO_MESSAGE = auto()
    POLLING_FULL = auto()


_STATUS: Final[dict[int, PopStatus]] = {
    ResponseCode.SUCCESS: PopStatus.FOUND,
    ResponseCode.PULL_NOT_FOUND: PopStatus.NO_MESSAGE,
    ResponseCode.POLLING_TIMEOUT: PopStatus.NO_MESSAGE,
    ResponseCode.POLLING_FULL: PopStatus.POLLING_FULL,
}


class PopOptions(NamedTuple):
    """The options of a pop.

    Attributes:
        max_count: most messages, at most 32.
        invisible_ms: how long they are hidden from the other members.
        wait_ms: how long the broker may hold the request while there are none.
        from_first: whether the group begins at the first message of a queue that it has not read before.
        ordered: whether a queue's messages are hidden until those before them are acknowledged.
        attempt_id: names an attempt of an ordered pop: repeated with it, it gets the same messages.
    """

    max_count: int
    invisible_ms: int
    wait_ms: int
    from_first: bool
    ordered: bool = False
    attempt_id: str | None = None


class PopResult(NamedTuple):
    """The result of a pop.

    Attributes:
        messages: with the topic that they were sent to, bodies as stored.
        pop_time_ms: when they were popped, by the broker's clock.
        unwanted: messages with another tag, whose hash is the same: nobody of the group wants them.
    """

    status: PopStatus
    messages: list[StoredMessage]
    pop_time_ms: int
    unwanted: list[StoredMessage]


class PopRequests:
    """Sends requests of one consumer group, each to the master of the broker that has the messages.

    Args:
        timeout_ms: timeout of a request; a pop may be held longer by its ``wait_ms``.
    """

    def __init__(self, connections: Connections, routes: Routes, group: str, timeout_ms: int) -> None:
        self.group = group
        self._connections = connections
        self._routes = routes
        self._timeout_ms = timeout_ms

    async def pop(self, queue: MessageQueue, wanted: SubscriptionData, options: PopOptions) -> PopResult:
        """Pop messages of a queue, or, with a negative queue id, of all queues of the topic on its broker.

        The broker adds messages of the group's retry topic. It measures how long it may hold the request from
        when that comes, so the machines' clocks need not agree.

        Raises:
            FormatError: the response cannot be decoded.
            NoRoute, NetworkError, RemoteError: the broker is unknown, does not respond, or refuses.
        """
        header = h.PopHeader(
            consumer_group=self.group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            max_msg_nums=options.max_count,
            invisible_time=options.invisible_ms,
            poll_time=options.wait_ms,
            born_time=0,
            init_mode=FROM_FIRST if options.from_first else FROM_LAST,
            exp_type=wanted.expression_type,
            exp=wanted.expression,
            order=options.ordered,
            attempt_id=options.attempt_id,
            broker_name=queue.broker_name,
        )
        grace_ms = options.wait_ms + PULL_GRACE_MS if options.wait_ms else 0
        answer = await self._request(
            queue.topic, queue.broker_name, RequestCode.POP_MESSAGE, header, self._timeout_ms + grace_ms
        )
        status = _STATUS.get(answer.code)
        if status is None:
            raise RemoteError(answer.code, answer.remark or "")
        if status is not PopStatus.FOUND:
            return PopResult(status, [], 0, [])
        where = h.parse(h.PopResponseHeader, answer.ext_fields)
        messages = list(_with_handles(answer.body, where, queue.broker_name, self.group))
        expression = None if wanted.expression_type == SQL92 else tag.parse(wanted.expression)
        chosen = [message for message in messages if expression is None or message.tags in expression]
        unwanted = [one for one in messages if expression is not None and one.tags not in expression]
        return PopResult(status, chosen, where.pop_time, unwanted)

    async def ack(self, topic: str, handle: ReceiptHandle) -> None:
        """Acknowledge a message of a topic. Raises NoRoute, NetworkError, RemoteError."""
        header = h.AckHeader(
            consumer_group=self.group,
            topic=retry_topic(topic, self.group, handle.retry_flag),
            queue_id=handle.queue_id,
            extra_info=str(handle),
            offset=handle.offset,
            broker_name=handle.broker_name,
        )
        answer = await self._request(topic, handle.broker_name, RequestCode.ACK_MESSAGE, header)
        _check_confirmed(answer, handle)

    async def ack_all(self, topic: str, handles: Iterable[ReceiptHandle]) -> None:
        """Acknowledge messages of a topic by one request to each broker, concurrently.

        Raises NoRoute, NetworkError or RemoteError if a broker fails; the others have been asked then, too.
        """
        by_broker: defaultdict[str, list[ReceiptHandle]] = defaultdict(list)
        for handle in handles:
            by_broker[handle.broker_name].append(handle)
        outcomes = await asyncio.gather(
            *(self._ack_batch(topic, name, of_broker) for name, of_broker in by_broker.items()),
            return_exceptions=True,
        )
        for outcome in outcomes:
            if outcome is not None:
                raise outcome

    async def change_invisible(
        self, topic: str, handle: ReceiptHandle, invisible_ms: int, *, counts: bool = True
    ) -> ReceiptHandle:
        """Hide a message for another time from now on; return its new handle.

        Args:
            invisible_ms: 0 for a delivery as soon as possible.
            counts: whether its next delivery counts as one more.

        Raises NoRoute, NetworkError, RemoteError.
        """
        header = h.ChangeInvisibleHeader(
            consumer_group=self.group,
            topic=retry_topic(topic, self.group, handle.retry_flag),
            queue_id=handle.queue_id,
            extra_info=str(handle),
            offset=handle.offset,
            invisible_time=invisible_ms,
            suspend=not counts,
            broker_name=handle.broker_name,
        )
        code = RequestCode.CHANGE_MESSAGE_INVISIBLETIME
        answer = _check_confirmed(await self._request(topic, handle.broker_name, code, header), handle)
        changed = h.parse(h.ChangeInvisibleResponseHeader, answer.ext_fields)
        return handle._replace(
            begin_offset=handle.offset,
            pop_time_ms=changed.pop_time,
            invisible_ms=changed.invisible_time,
            revive_queue_id=changed.revive_queue_id,
        )

    async def _ack_batch(self, topic: str, broker_name: str, handles: list[ReceiptHandle]) -> None:
        body = encode(BatchAckRequest(broker_name, list(self._batch_entries(topic, handles))))
        answer = await self._request(topic, broker_name, RequestCode.BATCH_ACK_MESSAGE, body=body)
        _check_confirmed(answer, handles[0])

    def _batch_entries(self, topic: str, handles: list[ReceiptHandle]) -> Iterator[BatchAckEntry]:
        """Build an entry for each check point."""
        by_check_point: defaultdict[ReceiptHandle, list[int]] = defaultdict(list)
        for handle in handles:
            by_check_point[handle._replace(offset=handle.begin_offset)].append(handle.offset)
        for handle, offsets in by_check_point.items():
            yield BatchAckEntry(
                consumer_group=self.group,
                topic=topic,
                retry=str(int(handle.retry_flag)),
                start_offset=handle.begin_offset,
                queue_id=handle.queue_id,
                revive_queue_id=handle.revive_queue_id,
                pop_time=handle.pop_time_ms,
                invisible_time=handle.invisible_ms,
                bit_set=bit_set.encode(offset - handle.begin_offset for offset in offsets),
            )

    async def _request(
        self,
        topic: str,
        broker_name: str,
        code: RequestCode,
        header: h.Header | None = None,
        timeout_ms: int | None = None,
        *,
        body: bytes = b"",
    ) -> Command:
        address = await self._routes.master(MessageQueue(topic, broker_name, 0))
        command = Command(code, ext_fields={} if header is None else h.fields(header), body=body)
        try:
            return await self._connections.request(address, command, timeout_ms or self._timeout_ms)
        except NetworkError:
            self._routes.expire(topic)  # the broker may have come back elsewhere
            raise


def whole_brokers(queues: Iterable[MessageQueue]) -> list[MessageQueue]:
    """Return one queue for each topic and broker, which stands for all queues of the topic there."""
    return list(dict.fromkeys(queue._replace(queue_id=ALL_QUEUES) for queue in queues))


def _check_confirmed(answer: Command, handle: ReceiptHandle) -> Command:
    """Return a response with SUCCESS. Raises RemoteError, which explains an unknown message."""
    if answer.code == ResponseCode.NO_MESSAGE:
        remark = f"{answer.remark or ''} [handle {str(handle)!r}: the broker has no such message any more]"
        raise RemoteError(answer.code, remark)
    return successful(answer)


def _with_handles(
    body: bytes, where: h.PopResponseHeader, broker_name: str, group: str
) -> Iterator[StoredMessage]:
    """Decode the messages of a pop, with their handles and the topics that they were sent to.

    Messages of a retry topic, whose topic the broker has replaced already, have their handles. The others are
    in the order of the lists of offsets. The retries of a message of an ordered pop are its earlier pops, of
    which its record does not know. Raises FormatError.
    """
    begins = parse_begin_offsets(where.start_offset_info or "")
    listed = parse_offsets(where.msg_offset_info or "")
    counts = parse_order_counts(where.order_count_info or "")
    following: dict[QueueKey, Iterator[int]] = {key: iter(offsets) for key, offsets in listed.items()}
    for record in decode_many(body):
        message = message_as_stored(record)
        retries = message.reconsume_times
        named = {FIRST_POP_TIME: str(where.pop_time), **message.properties}
        if POP_CK not in named:
            key = flag_of(message.topic), message.queue_id
            # brokers before 5.0.1 list nothing: each message is a check point of its own
            offset = next(following.get(key, iter(())), None) if listed else message.queue_offset
            if offset is None:
                raise FormatError(
                    f"the response to a pop lists no offset for message {message.message_id}, queue offset "
                    f"{message.queue_offset} of queue {message.queue_id}: {where.msg_offset_info!r:.200}"
                )
            handle = ReceiptHandle(
                begin_offset=begins.get(key, offset),
                pop_time_ms=where.pop_time,
                invisible_ms=where.invisible_time,
                revive_queue_id=where.revive_queue_id,
                retry_flag=key[0],
                broker_name=broker_name,
                queue_id=message.queue_id,
                offset=offset,
            )
            named[POP_CK] = str(handle)
            popped_before = counts.by_offset.get((*key, offset), counts.by_queue.get(key, 0))
            retries = popped_before or retries
        topic = normal_topic(message.topic, group)
        yield replace(message, topic=topic, properties=named, reconsume_times=retries)
