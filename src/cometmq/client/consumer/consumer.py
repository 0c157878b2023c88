"""The push consumer: gives each message of its topics to a handler, sharing them with the rest of its group.

::

    consumer = Consumer("127.0.0.1:9876", group="billing")

    @consumer.on("orders", tags="paid || refunded")
    async def handle(message): ...

    async with consumer:
        await consumer.wait()
"""

import asyncio
import os
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, TypeVar

from cometmq.arguments import FLAG, FUNCTION, TEXT, check, instance_of, number, or_none
from cometmq.client.consumer.consumption import ConsumerSettings, Consumption
from cometmq.client.consumer.ordered import SUSPEND_MS
from cometmq.client.consumer.pulling import PullOptions, check_options
from cometmq.client.consumer.start import Start
from cometmq.client.consumer.subscription import Handler, Subscription
from cometmq.client.group.membership import MemberSettings
from cometmq.client.identity import client_id
from cometmq.client.routes import parse_name_servers
from cometmq.cluster.rebalance import Strategy, averagely
from cometmq.errors import SettingsError
from cometmq.format.layout import valid_group, valid_topic
from cometmq.io.clock import Clock, SystemClock
from cometmq.message import MessageQueue
from cometmq.wire.bodies.heartbeat import ConsumeType, MessageModel

if TYPE_CHECKING:  # it imports sqlite3, which most consumers need not
    from cometmq.client.idempotence.deduplicator import Deduplicator, Once
    from cometmq.client.idempotence.key import IdempotentBy

MAX_CONCURRENCY: Final = 20
STOP_TIMEOUT_MS: Final = 30_000
COMMIT_MS: Final = 1_000
OFFSETS_DIRECTORY: Final = ".rocketmq_offsets"
SHARED_INSTANCE: Final = "DEFAULT"
"""The instance of broadcasting consumers: the file with their offsets must be found again."""

HandlerT = TypeVar("HandlerT", bound=Handler)


class Model(Enum):
    """Who of a group gets a message: one member, or each."""

    CLUSTERING = MessageModel.CLUSTERING
    BROADCASTING = MessageModel.BROADCASTING


class Consumer:
    """Handles messages as a member of a consumer group.

    Args:
        name_servers: ``host:port``, several joined by ``;``.
        group: name of the consumer group; all its members must subscribe to the same.
        model: CLUSTERING shares the queues among the members, BROADCASTING gives each member all.
        start: where the group begins in a queue of which it has committed nothing.
        strategy: divides the queues; all members must have the same.
        max_concurrency: how many handlers run at a time; plain functions run in as many threads.
        max_reconsume_times: after so many retries a message becomes a dead letter; None for RocketMQ's
            defaults: 16, and for ordered topics never.
        suspend_ms: how long an ordered queue pauses when its handler fails.
        pull: limits of what may wait here, and how much is pulled at once.
        on_rebalance: called with the queues that are this member's, whenever they change; none as it leaves.
        stop_timeout_ms: how long a stop waits for handlers before it cancels them.
        instance: makes the client id ``ip@instance``; None for one that nobody else has. Two processes
            must not have the same.
        offsets_directory: where broadcasting consumers keep their offsets, by client id and group;
            None for ``.rocketmq_offsets`` in the home directory, as Java clients do.
        deduplicator: remembers what was handled, for subscriptions with ``idempotent_by``. It is not closed
            with the consumer: others may use it.
        trace: whether to tell RMQ_SYS_TRACE_TOPIC of each message that a handler gets.
        start_timeout_ms: how long a start waits for a name server that does not answer; None for no end.
            Brokers and topics may come later in any case.

    Raises:
        SettingsError: an argument cannot be used.
        IllegalName: the group's name.
    """

    def __init__(
        self,
        name_servers: str,
        group: str,
        *,
        model: Model = Model.CLUSTERING,
        start: Start = Start.LAST,
        strategy: Strategy = averagely,
        max_concurrency: int = MAX_CONCURRENCY,
        max_reconsume_times: int | None = None,
        suspend_ms: int = SUSPEND_MS,
        pull: PullOptions | None = None,
        on_rebalance: Callable[[list[MessageQueue]], None] = lambda _: None,
        stop_timeout_ms: int = STOP_TIMEOUT_MS,
        instance: str | None = None,
        offsets_directory: Path | None = None,
        deduplicator: "Deduplicator | None" = None,
        trace: bool = False,
        start_timeout_ms: int | None = None,
        clock: Clock | None = None,
    ) -> None:
        check(instance_of(Model), model=model)
        check(instance_of(Start), start=start)
        check(FUNCTION, strategy=strategy, on_rebalance=on_rebalance)
        check(number(), max_concurrency=max_concurrency)
        check(number(0), suspend_ms=suspend_ms, stop_timeout_ms=stop_timeout_ms)
        check(or_none(number(0)), max_reconsume_times=max_reconsume_times, start_timeout_ms=start_timeout_ms)
        check(or_none(TEXT), instance=instance)
        check(or_none(instance_of(Path, str)), offsets_directory=offsets_directory)
        check(FLAG, trace=trace)
        if max_concurrency < 1:
            raise SettingsError(f"max_concurrency {max_concurrency}: at least one handler must run")
        if model is Model.BROADCASTING:
            instance = instance or SHARED_INSTANCE
        own_id = client_id(instance)
        offsets = Path(offsets_directory or Path.home() / OFFSETS_DIRECTORY)
        is_broadcasting = model is Model.BROADCASTING
        member = MemberSettings(
            name_servers=tuple(parse_name_servers(name_servers)),
            group=valid_group(group),
            client_id=own_id,
            instance=instance,
            made_by=os.getpid(),
            consume_type=ConsumeType.CONSUME_PASSIVELY,
            model=model.value,
            where=start.where,
            strategy=None if is_broadcasting else strategy,
            offsets_path=offsets / own_id / group / "offsets.json" if is_broadcasting else None,
            commit_ms=COMMIT_MS,
            on_rebalance=on_rebalance,
            clock=clock or SystemClock(),
            start_timeout_ms=start_timeout_ms,
        )
        self._settings = ConsumerSettings(
            member,
            start,
            max_concurrency,
            max_reconsume_times,
            suspend_ms,
            stop_timeout_ms,
            check_options(PullOptions() if pull is None else pull),
            trace,
        )
        self._deduplicator = deduplicator
        self._subscriptions: dict[str, Subscription] = {}
        self._at_work: Consumption | None = None
        self._stopping: asyncio.Event | None = None

    def on(
        self,
        topic: str,
        tags: str = "*",
        *,
        sql: str | None = None,
        ordered: bool = False,
        batch_size: int | None = None,
        idempotent_by: "IdempotentBy | None" = None,
    ) -> Callable[[HandlerT], HandlerT]:
        """Make the function below it the handler of a topic: see ``subscribe``."""

        def decorate(handler: HandlerT) -> HandlerT:
            self.subscribe(
                topic,
                handler,
                tags,
                sql=sql,
                ordered=ordered,
                batch_size=batch_size,
                idempotent_by=idempotent_by,
            )
            return handler

        return decorate

    def subscribe(
        self,
        topic: str,
        handler: Handler,
        tags: str = "*",
        *,
        sql: str | None = None,
        ordered: bool = False,
        batch_size: int | None = None,
        idempotent_by: "IdempotentBy | None" = None,
    ) -> None:
        """Let ``handler`` get the messages of a topic, at once if the consumer has started.

        Args:
            handler: takes a message, as an async function or as a plain one. When it returns, the message
                is done; when it raises, the message comes again: see ``Retry`` and ``DeadLetter``.
            tags: ``*``, or tags joined by ``||``.
            sql: a condition over the messages' properties, instead of tags.
            ordered: handle each queue's messages one after the other.
            batch_size: let the handler take lists of at most so many messages.
            idempotent_by: of messages that are the same by this, let one be handled: ``message_id``,
                ``keys``, the name of a property, or a function of the message. None to handle all that come.

        Raises:
            IllegalName, FormatError: the topic or the tags cannot be.
            SettingsError: the batch size cannot be, the topic has a handler, or ``idempotent_by`` is given
                and the consumer has no deduplicator, or broadcasts.
        """
        valid_topic(topic)
        if topic in self._subscriptions:
            raise SettingsError(f"topic {topic!r} has a handler already: a group sees a topic in one way")
        once = None if idempotent_by is None else self._once(topic, idempotent_by, ordered)
        self._subscriptions[topic] = Subscription(topic, handler, tags, sql, ordered, batch_size, once)
        self._resubscribe()

    def unsubscribe(self, topic: str) -> None:
        """Let nobody get the messages of a topic any more.

        Its queues are given up soon: no handler is begun any more, and what was handled is committed. In an
        ordered topic the handlers that run end before; else what they do does not count, and comes again
        when the group subscribes to the topic again.

        Raises SettingsError if the topic has no handler.
        """
        valid_topic(topic)
        if self._subscriptions.pop(topic, None) is None:
            raise SettingsError(f"topic {topic!r} has no handler that could be dropped")
        self._resubscribe()

    def _resubscribe(self) -> None:
        if self._at_work is not None:
            self._at_work.resubscribe()

    def _once(self, topic: str, idempotent_by: "IdempotentBy", ordered: bool) -> "Once":
        if self._deduplicator is None:
            raise SettingsError(
                "idempotent_by needs a memory: Consumer(..., deduplicator=Deduplicator('a.db'))"
            )
        if self._settings.member.model is MessageModel.BROADCASTING:
            raise SettingsError("broadcasting handles a message in each member: idempotent_by cannot be")
        return self._deduplicator.once(f"{self.group}/{topic}", idempotent_by, ordered=ordered)

    @property
    def group(self) -> str:
        """The consumer group."""
        return self._settings.member.group

    @property
    def client_id(self) -> str:
        """What this member is called."""
        return self._settings.member.client_id

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that are this member's now, with those of the group's retry topic."""
        return [] if self._at_work is None else self._at_work.rebalancing.owned()

    @property
    def twins(self) -> int:
        """How many other members are called the same, which they must not be."""
        return 0 if self._at_work is None else self._at_work.rebalancing.twins

    async def start(self) -> None:
        """Join the group and begin to consume. Waits until a name server answers, and asks twice a second.

        Raises:
            SettingsError: nothing is subscribed to, or it has started.
            NetworkError: no name server has answered for ``start_timeout_ms``, or it was stopped meanwhile.
            WrongServer, WrongProtocol: the address is not a name server's.
            RemoteError: a name server refuses.
            FormatError, OSError: the file with the offsets, for broadcasting, cannot be used.
        """
        if not self._subscriptions:
            raise SettingsError("a consumer without subscriptions: use on or subscribe first")
        if self._at_work is not None:
            raise SettingsError("this consumer has started already")
        self._settings = self._settings._replace(member=self._settings.member.of_this_process())
        self._stopping = asyncio.Event()
        self._at_work = Consumption(self._settings, self._subscriptions)
        try:
            await self._at_work.start()
        except BaseException:
            self._at_work = None
            raise

    async def stop(self) -> None:
        """Begin no more handlers, wait for those that run, commit, and leave the group."""
        if self._at_work is None or self._stopping is None:
            return
        at_work, self._at_work = self._at_work, None
        self._stopping.set()
        await at_work.stop()

    async def wait(self) -> None:
        """Wait until the consumer is stopped. Raises what stopped it if it was a failure."""
        if self._at_work is None or self._stopping is None:
            return
        working = asyncio.ensure_future(self._at_work.wait())
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
            if working.done() and not working.cancelled():
                working.result()
        finally:
            working.cancel()
            stopping.cancel()

    async def run(self) -> None:
        """Consume until this is cancelled, or ``stop`` is called. Raises like ``start`` and ``wait``."""
        async with self:
            await self.wait()

    async def __aenter__(self) -> Self:
        """Start."""
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop."""
        await self.stop()
