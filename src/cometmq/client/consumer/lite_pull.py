"""The lite pull consumer: its user asks for messages when it is ready for them, and may seek and pause.

::

    async with LitePullConsumer("127.0.0.1:9876", group="billing") as consumer:
        await consumer.subscribe("orders", tags="paid")
        while True:
            for message in await consumer.poll():
                ...

What a poll gave counts as done when the next one is made.
(RocketMQ: DefaultLitePullConsumer.java, where it counts as done when it is given.)
"""

import asyncio
import os
from collections.abc import Callable, Iterable
from typing import Final, Self

from cometmq.arguments import FUNCTION, TEXT, check, instance_of, number, or_none, several
from cometmq.client.consumer.bodies import first_whole
from cometmq.client.consumer.consumed import ConsumedQueue
from cometmq.client.consumer.pulling import Pulling, PullOptions, check_options
from cometmq.client.consumer.start import Start
from cometmq.client.consumer.subscription import Subscription
from cometmq.client.group.membership import MemberSettings, Membership, TopicInterest
from cometmq.client.identity import client_id
from cometmq.client.routes import parse_name_servers
from cometmq.client.waiting import wait_within
from cometmq.cluster.rebalance import Strategy, averagely
from cometmq.errors import SettingsError, UndecodableBody
from cometmq.format.layout import valid_group, valid_topic
from cometmq.io.clock import Clock, SystemClock
from cometmq.message import QUEUE, MessageQueue, StoredMessage
from cometmq.wire.bodies.heartbeat import ConsumeType, MessageModel

COMMIT_MS: Final = 5_000
POLL_TIMEOUT_MS: Final = 5_000
POLL_COUNT: Final = 10
_QUEUES: Final = several(QUEUE, "MessageQueues")


class LitePullConsumer:
    """Polls messages: of topics whose queues it shares with its group, or of queues that are assigned to it.

    Args:
        name_servers: ``host:port``, several joined by ``;``.
        group: name of the consumer group.
        start: where the group begins in a queue of which it has committed nothing.
        strategy: divides the queues; all members must have the same.
        pull: limits of what may wait here, and how much is pulled at once.
        commit_ms: how often what is done is committed; None to leave it to ``commit``.
        instance: makes the client id ``ip@instance``; None for one that nobody else has.
        on_rebalance: called with the queues that are consumed, whenever they change.
        start_timeout_ms: how long ``subscribe`` waits for a name server that does not answer; None for ever.

    Raises:
        SettingsError: the name servers cannot be.
        IllegalName: the group's name.
    """

    def __init__(
        self,
        name_servers: str,
        group: str,
        *,
        start: Start = Start.LAST,
        strategy: Strategy = averagely,
        pull: PullOptions | None = None,
        commit_ms: int | None = COMMIT_MS,
        instance: str | None = None,
        on_rebalance: Callable[[list[MessageQueue]], None] = lambda _: None,
        start_timeout_ms: int | None = None,
        clock: Clock | None = None,
    ) -> None:
        check(instance_of(Start), start=start)
        check(FUNCTION, strategy=strategy, on_rebalance=on_rebalance)
        check(or_none(number(1)), commit_ms=commit_ms)
        check(or_none(number(0)), start_timeout_ms=start_timeout_ms)
        check(or_none(TEXT), instance=instance)
        self._settings = MemberSettings(
            name_servers=tuple(parse_name_servers(name_servers)),
            group=valid_group(group),
            client_id=client_id(instance),
            instance=instance,
            made_by=os.getpid(),
            consume_type=ConsumeType.CONSUME_ACTIVELY,
            model=MessageModel.CLUSTERING,
            where=start.where,
            strategy=strategy,
            offsets_path=None,
            commit_ms=commit_ms,
            on_rebalance=on_rebalance,
            clock=clock or SystemClock(),
            start_timeout_ms=start_timeout_ms,
        )
        self._start = start
        self._pull = check_options(PullOptions() if pull is None else pull)
        self._subscriptions: dict[str, Subscription] = {}
        self._member: Membership | None = None
        self._paused: set[MessageQueue] = set()
        self._given: list[tuple[Pulling, list[StoredMessage]]] = []
        self._arrived = asyncio.Event()

    async def __aenter__(self) -> Self:
        """Get ready."""
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        """Commit and leave the group; after an exception, what the last poll gave is not done."""
        if kind is None:
            self._finish()
        self._given.clear()
        self._subscriptions.clear()
        member, self._member = self._member, None
        self._arrived.set()  # a poll that waits learns of it
        if member is not None:
            await _end(member, commit=self._settings.commit_ms is not None)

    async def subscribe(self, topic: str, tags: str = "*", *, sql: str | None = None) -> None:
        """Share a topic's queues with the group.

        Raises:
            IllegalName, FormatError: the topic or the tags cannot be.
            SettingsError: the topic is subscribed to, or queues are assigned.
            NetworkError, RemoteError: name servers have not answered for ``start_timeout_ms``, or refuse.
        """
        valid_topic(topic)
        if topic in self._subscriptions or (self._member is not None and not self._subscriptions):
            raise SettingsError(f"topic {topic!r}: subscribe once, and not beside assigned queues")
        self._subscriptions[topic] = Subscription(topic, _polled, tags, sql)
        try:
            await self._join()
        except BaseException:
            del self._subscriptions[topic]
            raise

    async def assign(self, queues: Iterable[MessageQueue]) -> None:
        """Read these queues and no others, whoever else does. Raises SettingsError after ``subscribe``."""
        queues = list(queues)
        check(_QUEUES, queues=queues)
        if self._subscriptions:
            raise SettingsError("queues cannot be assigned beside topics that are subscribed to")
        if self._member is None:
            await self._join()
        self._at_work.rebalancing.assign(queues)

    async def poll(
        self, timeout_ms: int = POLL_TIMEOUT_MS, *, max_count: int = POLL_COUNT
    ) -> list[StoredMessage]:
        """Give the next messages of one queue, waiting for some up to ``timeout_ms``.

        What the poll before gave is done.

        Raises:
            SettingsError: nothing is subscribed to or assigned.
            UndecodableBody: the next message's body cannot be decompressed; the poll after this one goes on
                behind it.
        """
        check(number(0), timeout_ms=timeout_ms)
        check(number(1), max_count=max_count)
        self._finish()
        deadline = asyncio.get_running_loop().time() + timeout_ms / 1000
        while True:
            self._arrived.clear()
            if messages := self._take(max_count):
                return messages
            left_s = deadline - asyncio.get_running_loop().time()
            if left_s <= 0:
                return []
            await wait_within(self._arrived, left_s)

    async def commit(self) -> None:
        """Commit all that polls have given. Raises NetworkError, NoRoute or RemoteError if it is not."""
        self._finish()
        if (error := await self._at_work.rebalancing.try_commit()) is not None:
            raise error

    def seek(self, queue: MessageQueue, queue_offset: int) -> None:
        """Go on in a queue at another offset. Raises SettingsError if the queue is not ours."""
        check(QUEUE, queue=queue)
        check(number(0), queue_offset=queue_offset)
        consumed = self._at_work.rebalancing.queues.get(queue)
        if consumed is None:
            raise SettingsError(f"{queue} is not consumed here: {self.queues} are")
        self._given = [(pulling, messages) for pulling, messages in self._given if pulling.queue != queue]
        consumed.pulling.restart(queue_offset)

    def pause(self, *queues: MessageQueue) -> None:
        """Give no messages of these queues until they are resumed."""
        check(_QUEUES, queues=queues)
        self._paused.update(queues)

    def resume(self, *queues: MessageQueue) -> None:
        """Give messages of these queues again."""
        check(_QUEUES, queues=queues)
        self._paused.difference_update(queues)
        self._arrived.set()

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that are consumed."""
        return [] if self._member is None else self._member.rebalancing.owned()

    @property
    def _at_work(self) -> Membership:
        if self._member is None:
            raise SettingsError("nothing is subscribed to and no queue is assigned: use subscribe or assign")
        return self._member

    async def _join(self) -> None:
        """Be a member with all subscriptions: a further one begins anew, from what is committed."""
        if self._member is not None:
            self._finish()
            await _end(self._member)
        self._settings = self._settings.of_this_process()
        now_ms = self._settings.clock.now_ms()
        wanted = {topic: TopicInterest(one.data(now_ms), False) for topic, one in self._subscriptions.items()}
        member = Membership(self._settings, wanted, self._consume)
        self._member = member
        try:
            await member.start()
        except BaseException:
            self._member = None
            raise

    def _consume(self, queue: MessageQueue) -> ConsumedQueue:
        subscription = self._subscriptions.get(queue.topic)  # none for an assigned queue
        pulling = Pulling(
            queue,
            self._at_work.requests,
            self._at_work.offsets,
            self._start,
            lambda *_: self._arrived.set(),
            tags="*" if subscription is None else subscription.tags,
            sql=None if subscription is None else subscription.sql,
            ordered=True,
            options=self._pull,
        )
        return ConsumedQueue(pulling)

    def _finish(self) -> None:
        """Note that what the last poll gave is done."""
        for pulling, messages in self._given:
            pulling.done(messages)
        self._given.clear()

    def _take(self, max_count: int) -> list[StoredMessage]:
        """Give what waits in the first queue that has something; that queue is the last one next time."""
        queues = self._at_work.rebalancing.queues
        for queue, consumed in list(queues.items()):
            waiting = consumed.pulling.waiting
            if queue in self._paused or waiting is None or not (messages := waiting.head(max_count)):
                continue
            queues[queue] = queues.pop(queue)
            try:
                whole = first_whole(messages)
            except UndecodableBody:
                self._given.append((consumed.pulling, messages[:1]))
                raise
            self._given.append((consumed.pulling, messages[: len(whole)]))
            return whole
        return []


async def _end(member: Membership, *, commit: bool = True) -> None:
    try:
        await member.settle()
        await member.leave(commit=commit)
    except BaseException:  # cancelled, as by a time limit
        await member.abandon()
        raise


async def _polled(_: object) -> None:
    """Stand for the handler of what is polled instead."""
