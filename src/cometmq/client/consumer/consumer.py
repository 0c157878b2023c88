"""The push consumer: calls a handler with each message of its topics, and shares their queues with its group.

::

    consumer = Consumer("127.0.0.1:9876", group="billing")

    @consumer.on("orders", tags="paid || refunded")
    async def handle(message): ...

    async with consumer:
        await consumer.wait()
"""

import asyncio
from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, TypeVar

from cometmq.arguments import FLAG, FUNCTION, check, instance_of, number, or_none, several
from cometmq.client.consumer.consumption import ConsumerSettings, Consumption
from cometmq.client.consumer.pop.consumption import PopConsumption
from cometmq.client.credentials import find_credentials
from cometmq.client.group.member_settings import MemberSettings
from cometmq.client.handling.handle_hooks import HandleHook, HandleHooks
from cometmq.client.handling.ordered import SUSPEND_MS
from cometmq.client.handling.pulling import PullOptions, check_options
from cometmq.client.handling.start import Start
from cometmq.client.handling.subscription import Handler, Subscription
from cometmq.client.requests.heartbeat import HEARTBEAT_INTERVAL_MS
from cometmq.client.signals import stopped_by_signals
from cometmq.cluster.rebalance import Strategy, averagely
from cometmq.errors import NetworkError, SettingsError
from cometmq.format.layout import valid_topic
from cometmq.io.clock import Clock
from cometmq.message import MessageQueue
from cometmq.net.tls.client import TLS, tls_of
from cometmq.wire.acl import Credentials
from cometmq.wire.bodies.heartbeat import ConsumeFromWhere, ConsumeType, MessageModel

if TYPE_CHECKING:  # it imports sqlite3, which most consumers do not need
    from cometmq.client.idempotence.deduplicator import Deduplicator, Once
    from cometmq.client.idempotence.key import IdempotentBy

MAX_CONCURRENCY: Final = 20
STOP_TIMEOUT_MS: Final = 30_000
COMMIT_MS: Final = 1_000
INVISIBLE_MS: Final = 60_000
OFFSETS_DIRECTORY: Final = ".rocketmq_offsets"
SHARED_INSTANCE: Final = "DEFAULT"
"""The instance of broadcasting consumers: a restart must find the file of their offsets."""

HandlerT = TypeVar("HandlerT", bound=Handler)


class Model(Enum):
    """Whether one member of a group gets a message, or each."""

    CLUSTERING = MessageModel.CLUSTERING
    BROADCASTING = MessageModel.BROADCASTING


class Consumer:
    """Handles messages as a member of a consumer group.

    Args:
        name_servers: ``host:port``, several joined by ``;``.
        group: name of the consumer group; all its members must have the same subscriptions.
        pop: whether brokers hand out messages one by one, to any member, instead of whole queues to owners:
            see ``docs/guide/simple-consumer.md``. Then no topic is handled in order, and ``strategy`` has no
            effect.
        invisible_ms: how long a popped message is hidden from the other members, from when it is received: a
            message that is not handled by then is delivered again.
        model: CLUSTERING shares the queues among the members, BROADCASTING gives each member all.
        start: where the group begins in a queue without a committed offset.
        strategy: divides the queues; all members must use the same.
        max_concurrency: how many handlers run at a time; plain functions run in as many threads.
        max_reconsume_times: after so many retries a message becomes a dead letter; None for RocketMQ's
            defaults: 16, and for ordered topics never.
        suspend_ms: how long an ordered queue pauses when its handler fails.
        pull: limits of the messages that wait here and of one pull.
        on_rebalance: called with this member's queues whenever they change; with none when it leaves.
        stop_timeout_ms: how long a stop waits for handlers before it cancels them.
        instance: makes the client id ``ip@instance``, which must be unique; None for a random one.
        offsets_directory: where broadcasting consumers store their offsets, by client id and group;
            None for ``.rocketmq_offsets`` in the home directory, as Java clients do.
        deduplicator: stores which messages were handled, for subscriptions with ``idempotent_by``. It is not
            closed with the consumer: others may use it.
        hooks: entered around each call of a handler (see ``client/handling/handle_hooks.py``).
        trace: whether to record each handled message in RMQ_SYS_TRACE_TOPIC.
        start_timeout_ms: how long a start waits for a name server; None for no limit. Brokers and topics may
            appear later in any case.
        heartbeat_interval_ms: interval of the heartbeats that keep this member in its group, at least 100:
            see ``docs/guide/consumer.md``.
        credentials: sign the requests; None for those of the environment (``client/credentials.py``).
        tls: how to connect by TLS; True to trust the system's authorities, None to connect plainly.

    Raises:
        SettingsError: an argument cannot be used.
        IllegalName: the group's name.
    """

    def __init__(
        self,
        name_servers: str,
        group: str,
        *,
        pop: bool = False,
        invisible_ms: int = INVISIBLE_MS,
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
        hooks: Sequence[HandleHook] = (),
        trace: bool = False,
        start_timeout_ms: int | None = None,
        heartbeat_interval_ms: int = HEARTBEAT_INTERVAL_MS,
        credentials: Credentials | None = None,
        tls: TLS | bool | None = None,
        clock: Clock | None = None,
    ) -> None:
        check(instance_of(Model), model=model)
        check(instance_of(Start), start=start)
        check(FUNCTION, strategy=strategy, on_rebalance=on_rebalance)
        check(number(), max_concurrency=max_concurrency)
        check(number(0), suspend_ms=suspend_ms, stop_timeout_ms=stop_timeout_ms)
        check(or_none(number(0)), max_reconsume_times=max_reconsume_times)
        check(or_none(instance_of(Path, str)), offsets_directory=offsets_directory)
        check(FLAG, trace=trace, pop=pop)
        check(several(instance_of(object), "HandleHooks"), hooks=hooks)
        check(number(1), invisible_ms=invisible_ms)
        if pop and (model is Model.BROADCASTING or start.where is ConsumeFromWhere.TIMESTAMP):
            raise SettingsError("pop=True: the model is CLUSTERING, and a group begins at FIRST or LAST")
        if not pop and invisible_ms != INVISIBLE_MS:
            raise SettingsError(f"invisible_ms {invisible_ms}: only with pop=True is a message hidden")
        if max_concurrency < 1:
            raise SettingsError(f"max_concurrency {max_concurrency}: at least one handler must run")
        is_broadcasting = model is Model.BROADCASTING
        if is_broadcasting and instance in (None, ""):
            instance = SHARED_INSTANCE
        kind = ConsumeType.CONSUME_POP if pop else ConsumeType.CONSUME_PASSIVELY
        member = MemberSettings.new(
            name_servers, group, instance, kind, start.where, clock, start_timeout_ms, heartbeat_interval_ms
        )
        offsets = Path(offsets_directory or Path.home() / OFFSETS_DIRECTORY)
        self._settings = ConsumerSettings(
            member._replace(
                model=model.value,
                strategy=None if is_broadcasting else strategy,
                offsets_path=offsets / member.client_id / group / "offsets.json" if is_broadcasting else None,
                commit_ms=COMMIT_MS,
                on_rebalance=on_rebalance,
                credentials=find_credentials(credentials),
                tls=tls_of(tls),
            ),
            start,
            max_concurrency,
            max_reconsume_times,
            suspend_ms,
            stop_timeout_ms,
            check_options(PullOptions() if pull is None else pull),
            trace,
            HandleHooks(group, hooks),
        )
        self._pop_invisible_ms = invisible_ms if pop else None
        self._deduplicator = deduplicator
        self._subscriptions: dict[str, Subscription] = {}
        self._running: Consumption | PopConsumption | None = None
        self._stopping: asyncio.Event | None = None
        self._stopped: asyncio.Event | None = None

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
        """Register the decorated function as the handler of a topic: see ``subscribe``."""

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
        """Register the handler of a topic; a consumer that has started calls it at once.

        Args:
            handler: an async or plain function of a message. When it returns, the message is done; when it
                raises, the message is delivered again: see ``Retry`` and ``DeadLetter``.
            tags: ``*``, or tags joined by ``||``.
            sql: a condition over the messages' properties, instead of tags. Brokers are asked whether they
                accept it when the consumer starts; in one that has started, a refusal is logged.
            ordered: handle each queue's messages one after the other.
            batch_size: call the handler with lists of at most so many messages.
            idempotent_by: handle only one of the messages with the same key: ``message_id``, ``keys``, the
                name of a property, or a function that returns a message's key. None to handle all.

        Raises:
            IllegalName, FormatError: the topic or the tags are illegal.
            IllegalArgument: both ``tags`` and ``sql`` are given.
            SettingsError: the batch size is illegal, the topic has a handler, it is ordered and the consumer
                pops, or ``idempotent_by`` is given and the consumer has no deduplicator, or broadcasts.
        """
        valid_topic(topic)
        if topic in self._subscriptions:
            raise SettingsError(f"topic {topic!r} has a handler already: a group sees a topic in one way")
        if ordered and self._pop_invisible_ms is not None:
            raise SettingsError(f"topic {topic!r} cannot be ordered: a consumer with pop=True keeps no order")
        times = self._settings.max_reconsume_times
        if times is not None and self._is_broadcasting and not ordered:
            raise SettingsError(
                f"max_reconsume_times {times}: leave it out, or handle topic {topic!r} with ordered=True: "
                "else broadcasting drops a message whose handler fails"
            )
        once = None if idempotent_by is None else self._once(topic, idempotent_by, ordered)
        self._subscriptions[topic] = Subscription(topic, handler, tags, sql, ordered, batch_size, once)
        self._resubscribe()

    def unsubscribe(self, topic: str) -> None:
        """Unregister the handler of a topic.

        No handler of it is started any more, offsets are committed, and the queues are released soon. An
        ordered topic waits for its running handlers. Else the messages of running handlers are not done, and
        are delivered again when the group subscribes to the topic again.

        Raises SettingsError if the topic has no handler.
        """
        valid_topic(topic)
        if self._subscriptions.pop(topic, None) is None:
            raise SettingsError(f"topic {topic!r} has no handler that could be dropped")
        self._resubscribe()

    def _resubscribe(self) -> None:
        if self._running is not None and not (self._stopping and self._stopping.is_set()):
            self._running.resubscribe()

    def _once(self, topic: str, idempotent_by: "IdempotentBy", ordered: bool) -> "Once":
        if self._deduplicator is None:
            raise SettingsError(
                "idempotent_by needs a memory: Consumer(..., deduplicator=Deduplicator('a.db'))"
            )
        if self._is_broadcasting:
            raise SettingsError("broadcasting handles a message in each member: idempotent_by cannot be")
        return self._deduplicator.once(f"{self.group}/{topic}", idempotent_by, ordered=ordered)

    @property
    def _is_broadcasting(self) -> bool:
        return self._settings.member.model is MessageModel.BROADCASTING

    @property
    def group(self) -> str:
        """The consumer group."""
        return self._settings.member.group

    @property
    def client_id(self) -> str:
        """The client id of this member."""
        return self._settings.member.client_id

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that this member owns now, with those of the group's retry topic."""
        return [] if self._running is None else self._running.queues

    @property
    def twins(self) -> int:
        """How many other members have the same client id, which must be unique."""
        return 0 if self._running is None else self._running.twins

    async def start(self) -> None:
        """Join the group and begin to consume; until a name server responds, retry twice a second.

        Raises:
            SettingsError: nothing is subscribed to, or the consumer has started already.
            NetworkError: no name server responds within ``start_timeout_ms``, or the consumer was stopped.
            WrongServer, WrongProtocol: the address is not a name server's.
            TLSError: it or this consumer does not accept the other's certificate.
            RemoteError: a name server refuses, or a broker refuses a condition ``sql``.
            FormatError, OSError: the file of the offsets, for broadcasting, cannot be read.
        """
        if not self._subscriptions:
            raise SettingsError("a consumer without subscriptions: use on or subscribe first")
        if self._running is not None:
            raise SettingsError("this consumer has started already")
        self._settings = self._settings._replace(member=self._settings.member.of_this_process())
        self._stopping, self._stopped = asyncio.Event(), asyncio.Event()
        self._running = self._new_consumption()
        try:
            await self._running.start()
        except BaseException:
            self._running = None
            raise

    def _new_consumption(self) -> Consumption | PopConsumption:
        if self._pop_invisible_ms is None:
            return Consumption(self._settings, self._subscriptions)
        return PopConsumption(self._settings, self._pop_invisible_ms, self._subscriptions)

    async def stop(self) -> None:
        """Start no more handlers, wait for the running ones, commit, and leave the group.

        Within a handler this does not wait for that handler: its messages are done. If another stop is under
        way it returns at once there, and the handler's outcome counts.
        """
        running, stopping, stopped = self._running, self._stopping, self._stopped
        if running is None or stopping is None or stopped is None:
            return
        if stopping.is_set():
            if not running.is_caller():
                await stopped.wait()
            return
        stopping.set()
        try:
            await running.stop()
        finally:
            self._running = None
            stopped.set()

    async def wait(self) -> None:
        """Wait until the consumer is stopped. Raises the error if it failed."""
        if self._running is None or self._stopping is None:
            return
        working = asyncio.ensure_future(self._running.wait())
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
            if working.done() and not working.cancelled():
                working.result()
        finally:
            working.cancel()
            stopping.cancel()

    async def run(self) -> None:
        """Start, and wait until cancelled or stopped: by SIGTERM and SIGINT (Ctrl-C), too.

        The first signal stops the consumer gracefully, a second one ends the program at once. That holds in
        the main thread, and unless the application handles the signal by itself.

        Raises like ``start`` and ``wait``.
        """
        stops: list[asyncio.Task[None]] = []
        with stopped_by_signals(lambda: stops.append(asyncio.create_task(self.stop()))):
            try:
                async with self:
                    await self.wait()
            except NetworkError:
                if not stops:  # else it was stopped while it waited for a name server
                    raise
            await asyncio.gather(*stops)

    async def __aenter__(self) -> Self:
        """Start."""
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop."""
        await self.stop()
