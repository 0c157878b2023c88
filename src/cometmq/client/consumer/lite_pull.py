"""The lite pull consumer: its user polls for messages, and may seek and pause.

::

    async with LitePullConsumer("127.0.0.1:9876", group="billing") as consumer:
        await consumer.subscribe("orders", tags="paid")
        while True:
            for message in await consumer.poll():
                ...

The messages of a poll are done when the next poll is called.
(RocketMQ: DefaultLitePullConsumer.java, where they are done as soon as they are returned.)
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, Self

from cometmq.arguments import FUNCTION, check, instance_of, number, or_none, several
from cometmq.client.credentials import find_credentials
from cometmq.client.group.member_settings import MemberSettings
from cometmq.client.group.membership import Membership, TopicInterest
from cometmq.client.handling.consumed_queue import ConsumedQueue
from cometmq.client.handling.pulling import Pulling, PullOptions, PullSource, check_options
from cometmq.client.handling.start import Start
from cometmq.client.handling.subscription import Subscription
from cometmq.client.requests.bodies import decompress_first
from cometmq.client.requests.heartbeat import HEARTBEAT_INTERVAL_MS
from cometmq.client.waiting import wait_within
from cometmq.cluster.rebalance import Strategy, averagely
from cometmq.errors import SettingsError, UndecodableBody
from cometmq.format.layout import valid_topic
from cometmq.io.clock import Clock
from cometmq.message import QUEUE, MessageQueue, StoredMessage
from cometmq.net.tls.client import TLS, tls_of
from cometmq.wire.acl import Credentials
from cometmq.wire.bodies.heartbeat import ConsumeType

COMMIT_MS: Final = 5_000
POLL_TIMEOUT_MS: Final = 5_000
POLL_COUNT: Final = 10
_QUEUES: Final = several(QUEUE, "MessageQueues")


class LitePullConsumer:
    """Polls messages of subscribed topics, whose queues it shares with its group, or of assigned queues.

    Args:
        name_servers: ``host:port``, several joined by ``;``.
        group: name of the consumer group.
        start: where the group begins in a queue without a committed offset.
        strategy: divides the queues; all members must use the same.
        pull: limits of the messages that wait here and of one pull.
        commit_ms: interval of commits; None to commit only by ``commit``.
        instance: makes the client id ``ip@instance``; None for a random one.
        on_rebalance: called with the owned queues whenever they change.
        start_timeout_ms: how long ``subscribe`` waits for a name server; None for no limit.
        heartbeat_interval_ms: interval of the heartbeats that keep this member in its group, at least 100:
            see ``docs/guide/consumer.md``.
        credentials: sign the requests; None for those of the environment (``client/credentials.py``).
        tls: how to connect by TLS; True to trust the system's authorities, None to connect plainly.

    Raises:
        SettingsError: the name servers are illegal.
        IllegalName: the group's name is illegal.
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
        heartbeat_interval_ms: int = HEARTBEAT_INTERVAL_MS,
        credentials: Credentials | None = None,
        tls: TLS | bool | None = None,
        clock: Clock | None = None,
    ) -> None:
        check(instance_of(Start), start=start)
        check(FUNCTION, strategy=strategy, on_rebalance=on_rebalance)
        check(or_none(number(1)), commit_ms=commit_ms)
        kind = ConsumeType.CONSUME_ACTIVELY
        self._settings = MemberSettings.new(
            name_servers, group, instance, kind, start.where, clock, start_timeout_ms, heartbeat_interval_ms
        )._replace(
            strategy=strategy,
            commit_ms=commit_ms,
            on_rebalance=on_rebalance,
            credentials=find_credentials(credentials),
            tls=tls_of(tls),
        )
        self._start = start
        self._pull = check_options(PullOptions() if pull is None else pull)
        self._subscriptions: dict[str, Subscription] = {}
        self._member: Membership | None = None
        self._paused: set[MessageQueue] = set()
        self._polled: list[tuple[Pulling, list[StoredMessage]]] = []
        self._arrived = asyncio.Event()

    async def __aenter__(self) -> Self:
        """Open the consumer."""
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        """Commit and leave the group; after an exception the messages of the last poll are not done."""
        if kind is None:
            self._finish_poll()
        self._polled.clear()
        self._subscriptions.clear()
        member, self._member = self._member, None
        self._arrived.set()  # wakes a poll that waits
        if member is not None:
            await _leave(member, commit=self._settings.commit_ms is not None)

    async def subscribe(self, topic: str, tags: str = "*", *, sql: str | None = None) -> None:
        """Subscribe to a topic, sharing its queues with the group.

        Raises:
            IllegalName, FormatError: the topic or the tags are illegal.
            IllegalArgument: both ``tags`` and ``sql`` are given.
            SettingsError: the topic is subscribed to already, or queues are assigned.
            NetworkError, RemoteError: no name server responds within ``start_timeout_ms``, or one refuses;
                RemoteError also if a broker refuses the condition ``sql``.
        """
        valid_topic(topic)
        if topic in self._subscriptions or (self._member is not None and not self._subscriptions):
            raise SettingsError(f"topic {topic!r}: subscribe once, and not beside assigned queues")
        self._subscriptions[topic] = Subscription(topic, _no_handler, tags, sql)
        try:
            await self._join()
        except BaseException:
            del self._subscriptions[topic]
            raise

    async def assign(self, queues: Iterable[MessageQueue]) -> None:
        """Read these queues and no others, whether or not other consumers do, from where the group is.

        Raises SettingsError after ``subscribe``.
        """
        queues = list(queues)
        check(_QUEUES, queues=queues)
        if self._subscriptions:
            raise SettingsError("queues cannot be assigned beside topics that are subscribed to")
        if self._member is None:
            await self._join()
        self._joined.rebalancing.assign(queues)
        await self._joined.begin()

    async def poll(
        self, timeout_ms: int = POLL_TIMEOUT_MS, *, max_count: int = POLL_COUNT
    ) -> list[StoredMessage]:
        """Return the next messages of one queue; wait for some up to ``timeout_ms``.

        The messages of the previous poll are done then.

        Raises:
            SettingsError: nothing is subscribed to or assigned.
            UndecodableBody: the next message's body cannot be decompressed; the next poll continues after it.
        """
        check(number(0), timeout_ms=timeout_ms)
        check(number(1), max_count=max_count)
        self._finish_poll()
        deadline = asyncio.get_running_loop().time() + timeout_ms / 1000
        while True:
            self._arrived.clear()
            if messages := self._next_messages(max_count):
                return messages
            left_s = deadline - asyncio.get_running_loop().time()
            if left_s <= 0:
                return []
            await wait_within(self._arrived, left_s)

    async def commit(self) -> None:
        """Commit the offsets of all messages that polls have returned.

        Raises NetworkError, NoRoute or RemoteError on failure.
        """
        self._finish_poll()
        if (error := await self._joined.rebalancing.try_commit()) is not None:
            raise error

    def seek(self, queue: MessageQueue, queue_offset: int) -> None:
        """Continue in a queue at another offset. Raises SettingsError if the queue is not consumed here."""
        check(QUEUE, queue=queue)
        check(number(0), queue_offset=queue_offset)
        consumed = self._joined.rebalancing.queues.get(queue)
        if consumed is None:
            raise SettingsError(f"{queue} is not consumed here: {self.queues} are")
        self._polled = [(pulling, messages) for pulling, messages in self._polled if pulling.queue != queue]
        consumed.pulling.restart(queue_offset)

    def pause(self, *queues: MessageQueue) -> None:
        """Return no messages of these queues from ``poll`` until they are resumed."""
        check(_QUEUES, queues=queues)
        self._paused.update(queues)

    def resume(self, *queues: MessageQueue) -> None:
        """Return messages of these queues from ``poll`` again."""
        check(_QUEUES, queues=queues)
        self._paused.difference_update(queues)
        self._arrived.set()

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that are consumed."""
        return [] if self._member is None else self._member.rebalancing.owned()

    @property
    def _joined(self) -> Membership:
        if self._member is None:
            raise SettingsError("nothing is subscribed to and no queue is assigned: use subscribe or assign")
        return self._member

    async def _join(self) -> None:
        """Join the group with all subscriptions; a member leaves first and then begins at its commits."""
        now_ms = self._settings.clock.now_ms()
        interests = {
            topic: TopicInterest(one.data(now_ms), False) for topic, one in self._subscriptions.items()
        }
        began_ms = None
        if self._member is not None:
            await self._member.find(interests)  # if that fails the member stays as it is
            began_ms = self._member.began_ms
            self._finish_poll()
            await _leave(self._member)
        self._settings = self._settings.of_this_process()
        member = Membership(self._settings, interests, self._consume, began_ms=began_ms)
        self._member = member
        try:
            await member.start()
        except BaseException:
            self._member = None
            raise

    def _consume(self, queue: MessageQueue) -> ConsumedQueue:
        subscription = self._subscriptions.get(queue.topic)  # None for an assigned queue
        member = self._joined
        pulling = Pulling(
            queue,
            PullSource(member.requests, member.offsets, self._start, self._pull, member.since_ms),
            lambda *_: self._arrived.set(),
            tags="*" if subscription is None else subscription.tags,
            sql=None if subscription is None else subscription.sql,
            ordered=True,
        )
        return ConsumedQueue(pulling)

    def _finish_poll(self) -> None:
        """Mark the messages of the last poll as done."""
        for pulling, messages in self._polled:
            pulling.done(messages)
        self._polled.clear()

    def _next_messages(self, max_count: int) -> list[StoredMessage]:
        """Return messages of the first queue that has some; that queue is the last one next time."""
        queues = self._joined.rebalancing.queues
        for queue, consumed in list(queues.items()):
            waiting = consumed.pulling.waiting
            if queue in self._paused or waiting is None or not (messages := waiting.head(max_count)):
                continue
            queues[queue] = queues.pop(queue)
            try:
                whole = decompress_first(messages)
            except UndecodableBody:
                self._polled.append((consumed.pulling, messages[:1]))
                raise
            self._polled.append((consumed.pulling, messages[: len(whole)]))
            return whole
        return []


async def _leave(member: Membership, *, commit: bool = True) -> None:
    try:
        await member.stop_rebalancing()
        await member.leave(commit=commit)
    except BaseException:  # this was cancelled
        await member.abandon()
        raise


async def _no_handler(_: object) -> None:
    """Do nothing: a subscription needs a handler, which polling never calls."""
