"""ReceiveMessage: pop messages for a client, which the broker may hold while there are none.

Source: RocketMQ ``proxy/grpc/v2/consumer/ReceiveMessageActivity.java``.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable
from itertools import count
from typing import Any, Final

from cometmq.client.background import start_task
from cometmq.client.requests.pop_requests import PopOptions, PopResult, PopStatus
from cometmq.cluster.assignment import ALL_QUEUES
from cometmq.cluster.route import READ
from cometmq.errors import CometMQError
from cometmq.format.pop.names import POP_COUNT_MAX
from cometmq.logs import get_logger
from cometmq.message import MessageQueue, StoredMessage
from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.brokers import Brokers
from cometmq.proxy.clients import Clients
from cometmq.proxy.fellow_workers import FellowWorkers
from cometmq.proxy.filters import subscription_of
from cometmq.proxy.membership import ProxyMembership
from cometmq.proxy.messages.bodies import ROOM_S, Bodies, held_bytes
from cometmq.proxy.messages.receipts import receipt_of
from cometmq.proxy.messages.received import received_message, timestamp_of
from cometmq.proxy.names import (
    INVISIBLE_MS_MIN,
    checked_group,
    checked_invisible_ms,
    checked_topic,
    milliseconds,
)
from cometmq.proxy.outcomes import OK, Failure, status_of, unread
from cometmq.proxy.renewals import Renewals
from cometmq.proxy.rpcs.dead_letters import forward_to_dead_letters
from cometmq.proxy.transport import Call, ClientKey
from cometmq.wire.bodies.group import GroupConfig
from cometmq.wire.bodies.heartbeat import SubscriptionData

RENEWED_INVISIBLE_MS: Final = 60_000
"""Invisible time of messages that the proxy hides for longer until the client has handled them."""
POLLING_MS_MIN: Final = 5_000
POLLING_MS_MAX: Final = 20_000
ANSWER_MS: Final = 1_500
"""What is left of the deadline for the answer, if the client does not say how long to poll."""
HAND_BACK_MS: Final = 1_000
"""How soon messages are delivered again that could not be given to the client."""

_log = get_logger(__name__)


class Receiving:
    """Pops messages for clients.

    Args:
        clients: know those for which a group is joined, or messages are hidden for longer.
        fellows: this worker's number among them is told in the handles of such messages.
        renewals: prolong the invisible times of messages until they are handled.
        bodies: decompress those of messages.
    """

    def __init__(
        self,
        brokers: Brokers,
        clients: Clients,
        membership: ProxyMembership,
        fellows: FellowWorkers,
        renewals: Renewals,
        bodies: Bodies,
    ) -> None:
        self._bodies = bodies
        self._brokers = brokers
        self._clients = clients
        self._membership = membership
        self._fellows = fellows
        self._renewals = renewals
        self._turn = count()
        self._abandoned: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """Stop waiting for the messages of pops whose clients have gone."""
        for task in self._abandoned:
            task.cancel()
        await asyncio.gather(*self._abandoned, return_exceptions=True)

    async def receive_message(
        self, request: pb.ReceiveMessageRequest, call: Call
    ) -> AsyncIterator[pb.ReceiveMessageResponse]:
        """Iterate over the status, the messages, and the time of their delivery."""
        group, status, messages = await self._delivery(request, call)
        given = 0
        holder = self._fellows.own_number if request.auto_renew else None
        try:
            yield pb.ReceiveMessageResponse(status=status)
            for message in messages:
                receipt = receipt_of(message, holder)
                readable = await self._bodies.readable(message, call.language, call.answers)
                yield pb.ReceiveMessageResponse(message=received_message(readable, str(receipt)))
                given += 1
                if request.auto_renew:
                    self._renewals.add(call.client, group, message, receipt)
            now = timestamp_of(self._brokers.clock.now_ms())
            yield pb.ReceiveMessageResponse(delivery_timestamp=now)
        finally:
            if given < len(messages):
                self._hand_back_soon(group, messages[given:])

    async def _delivery(
        self, request: pb.ReceiveMessageRequest, call: Call
    ) -> tuple[str, pb.Status, list[StoredMessage]]:
        """Return the group, the status and the messages of an answer, for which there is room."""
        group = ""
        try:
            group, topic = checked_group(request.group), checked_topic(request.message_queue.topic)
            queue = await self._queue(request.message_queue, topic)
            wanted = subscription_of(topic, request.filter_expression, self._brokers.clock.now_ms())
            settings = await self._group(group, wanted, call.client)
            options = _options(request, call, settings)
            if request.auto_renew:
                self._clients.claim(call.client, group)
                if not self._renewals.has_room(call.client, group):
                    raise _too_many_handled(group)
            if not await call.answers.ask(ROOM_S):
                raise unread()
            result = await self._pop(group, queue, wanted, options)
            messages = await self._chosen(group, settings, result)
            if not messages:
                return group, _nothing(result), []
            if not call.answers.hold(held_bytes(messages)):
                self._hand_back_soon(group, messages)
                raise unread()
        except CometMQError as error:
            return group, status_of(error), []
        return group, OK, messages

    async def _group(self, group: str, wanted: SubscriptionData, client: ClientKey) -> GroupConfig:
        """Return a group's settings; a client may receive before its stream has created the group."""
        try:
            return await self._brokers.group(group, wanted.topic)
        except Failure:
            self._clients.claim(client, group)
            await self._membership.join(group, [wanted])
            return await self._brokers.group(group, wanted.topic)

    async def _queue(self, wanted: pb.MessageQueue, topic: str) -> MessageQueue:
        """Return all queues of the broker that the client names, else of the next one."""
        route = await self._brokers.route(topic)
        names = sorted(counts.broker_name for counts in route.queues if counts.perm & READ)
        if not names:
            raise Failure(pb.FORBIDDEN, f"topic {topic!r} has no queue that can be read")
        name = wanted.broker.name
        if name not in names:
            name = names[next(self._turn) % len(names)]
        return MessageQueue(topic, name, ALL_QUEUES)

    async def _pop(
        self, group: str, queue: MessageQueue, wanted: SubscriptionData, options: PopOptions
    ) -> PopResult:
        """Pop; if the client leaves meanwhile, hand back what the broker then delivers."""
        popping = asyncio.ensure_future(self._brokers.pops(group).pop(queue, wanted, options))
        try:
            return await asyncio.shield(popping)
        except asyncio.CancelledError:
            self._keep(self._hand_back_result(group, popping), f"pop of {queue} without its client")
            raise

    async def _hand_back_result(self, group: str, popping: "asyncio.Future[PopResult]") -> None:
        try:
            result = await popping
        except CometMQError as error:
            _log.info("a pop whose client has gone failed: %s", error)
        else:
            await self._hand_back(group, [*result.messages, *result.unwanted])

    async def _chosen(self, group: str, settings: GroupConfig, result: PopResult) -> list[StoredMessage]:
        """Return the messages to deliver; acknowledge those that nobody wants, and bury those that failed."""
        chosen = []
        for message in result.messages:
            if message.reconsume_times > settings.retry_max_times:
                await self._bury(group, message)
            else:
                chosen.append(message)
        if result.unwanted:
            topic = result.unwanted[0].topic
            handles = [receipt_of(message).handle for message in result.unwanted]
            try:
                await self._brokers.pops(group).ack_all(topic, handles)
            except CometMQError as error:
                _log.warning("messages that nobody of %s wants come again: %s", group, error)
        return chosen

    async def _bury(self, group: str, message: StoredMessage) -> None:
        receipt = receipt_of(message)
        try:
            await forward_to_dead_letters(self._brokers, group, message.topic, receipt, message.message_id)
        except CometMQError as error:
            _log.warning("no dead letter, the message comes again: %s: %s", message.message_id, error)

    def _hand_back_soon(self, group: str, messages: list[StoredMessage]) -> None:
        self._keep(self._hand_back(group, messages), f"hand back of {len(messages)} messages")

    async def _hand_back(self, group: str, messages: Iterable[StoredMessage]) -> None:
        """Show messages to others soon; this delivery does not count."""
        pops = self._brokers.pops(group)
        for message in messages:
            handle = receipt_of(message).handle
            try:
                await pops.change_invisible(message.topic, handle, HAND_BACK_MS, counts=False)
            except CometMQError as error:
                _log.warning("message %s comes again later: %s", message.message_id, error)

    def _keep(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = start_task(work, name)
        self._abandoned.add(task)
        task.add_done_callback(self._abandoned.discard)


def _too_many_handled(group: str) -> Failure:
    return Failure(
        pb.TOO_MANY_REQUESTS,
        f"too many messages of group {group!r}, or of all groups, are being handled: acknowledge some "
        "(handledMessagesMax, handledMessagesTotalMax)",
    )


def _nothing(result: PopResult) -> pb.Status:
    """Return the status of a call that delivers no message."""
    if result.status is PopStatus.POLLING_FULL:
        return pb.Status(code=pb.TOO_MANY_REQUESTS, message="too many calls wait for messages there")
    text = "no match message" if result.messages or result.unwanted else "no new message"
    return pb.Status(code=pb.MESSAGE_NOT_FOUND, message=text)


def _options(request: pb.ReceiveMessageRequest, call: Call, settings: GroupConfig) -> PopOptions:
    """Return how to pop. Raises Failure for an invisible or a polling time that is not possible."""
    invisible_ms = RENEWED_INVISIBLE_MS
    if not request.auto_renew:
        invisible_ms = checked_invisible_ms(request.invisible_duration, INVISIBLE_MS_MIN)
    return PopOptions(
        max_count=max(1, min(request.batch_size, POP_COUNT_MAX)),
        invisible_ms=invisible_ms,
        wait_ms=_polling_ms(request, call.left_ms()),
        from_first=False,
        ordered=settings.consume_message_orderly,
        attempt_id=request.attempt_id or None,
    )


def _polling_ms(request: pb.ReceiveMessageRequest, left_ms: int | None) -> int:
    """Return how long the broker may hold the pop. Raises Failure if the client's deadline is too near."""
    if request.HasField("long_polling_timeout"):
        wanted_ms = milliseconds(request.long_polling_timeout)
    else:
        wanted_ms = POLLING_MS_MAX if left_ms is None else left_ms - ANSWER_MS
    polling_ms = min(max(wanted_ms, POLLING_MS_MIN), POLLING_MS_MAX)
    if left_ms is None or polling_ms <= left_ms:
        return polling_ms
    if left_ms < POLLING_MS_MIN:
        raise Failure(
            pb.ILLEGAL_POLLING_TIME,
            f"the deadline is in {left_ms} ms: give the call {POLLING_MS_MIN} ms at least",
        )
    return left_ms
