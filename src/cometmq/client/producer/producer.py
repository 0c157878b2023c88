"""The producer: sends messages, requests and replies.

::

    async with Producer("127.0.0.1:9876", group="orders") as producer:
        result = await producer.send(Message("orders", b"paid", tags="paid", keys=("42",)))
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Literal

from msgspec.structs import replace

from cometmq.arguments import FLAG, FUNCTION, TEXT, check, instance_of, number, or_none, several
from cometmq.client.credentials import find_credentials
from cometmq.client.identity import client_id, new_id_maker
from cometmq.client.opening import Opening
from cometmq.client.producer import outgoing, packing
from cometmq.client.producer.accumulator import Accumulator
from cometmq.client.producer.hooks import Hooks, SendHook
from cometmq.client.producer.idempotence_key import IdempotentBy, key_by
from cometmq.client.producer.outgoing import Outgoing
from cometmq.client.producer.packing import Lane
from cometmq.client.producer.presence import Presence
from cometmq.client.producer.recalls import checked_handle, recall_request, recalled_id
from cometmq.client.producer.request import PendingReplies, reply_of, reply_topic, request_of
from cometmq.client.producer.send_arguments import TEXT_OR_FUNCTION, WHERE, check_sent, compression_of, listed
from cometmq.client.producer.send_result import SendResult, result_of_each
from cometmq.client.producer.send_trace import SendTracer
from cometmq.client.producer.sending import SEND_TIMEOUT_MS, TRIES, Sender, SendSettings, Where
from cometmq.client.producer.trace import trace_sender
from cometmq.client.requests.heartbeat import HEARTBEAT_INTERVAL, HEARTBEAT_INTERVAL_MS
from cometmq.client.routes import GONE_S, Routes
from cometmq.client.semaphore import LightSemaphore
from cometmq.cluster.fault import BrokerFaults
from cometmq.cluster.route import queue_of_key
from cometmq.errors import CometMQError, PartlySent, RequestTimeout, SettingsError
from cometmq.format.delay_level import LEVEL_MAX
from cometmq.format.layout import valid_group, valid_topic
from cometmq.format.properties import IDEMPOTENCE_KEY
from cometmq.io.clock import Clock, SystemClock
from cometmq.message import Message, MessageQueue, StoredMessage
from cometmq.net.address import parse_name_servers
from cometmq.net.client import Connections
from cometmq.net.connection import Connection, refuse_request
from cometmq.net.tls.client import TLS, tls_of
from cometmq.wire.acl import Credentials
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command

IN_FLIGHT_MAX: Final = 1_024
REPLY_TIMEOUT_MS: Final = 3_000
BATCH_BYTES_MAX: Final = outgoing.BODY_SIZE_MAX // 2
"""Half of a broker's limit: larger batches are not faster."""


class Producer(Opening):
    """Sends messages; open it by ``async with``, or by ``start`` and ``stop``.

    Args:
        name_servers: ``host:port``, several joined by ``;``.
        group: name of the producer group.
        timeout_ms: timeout of one attempt, and of the first one's wait for a name server that knows a broker.
        tries: how many brokers or queues are tried before a send fails.
        compress_over: bodies of at least so many bytes are compressed; None for none.
        compression: ``zlib``, which all clients can read; ``lz4`` or ``zstd``, which clients from 5.0 on can.
        in_flight_max: how many requests may wait for a response; further sends wait.
        hooks: called before and after each attempt of a send (see ``client/producer/hooks.py``).
        trace: whether to record each message in RMQ_SYS_TRACE_TOPIC.
        linger_ms: how long a single send may wait for others of its topic to share a batch with; None for
            not at all. Messages with a delay, a sharding or idempotence key or a given queue do not wait.
        batch_bytes: a batch of this size waits no longer.
        latency_fault_tolerance: whether slow brokers are avoided for a while (see ``cluster/fault.py``).
        idempotent_by: the key by which a CometMQ broker recognises a message that it has stored already:
            ``message_id`` (this stops only duplicates by retries), ``keys``, or a function that returns a
            message's key, or None for its id.
        delay_level_max: the highest delay level of a message; more than 18 if the brokers' setting
            ``messageDelayLevel`` has more.
        heartbeat_interval_ms: interval of the heartbeats by which brokers know this producer, at least 100.
        credentials: sign the requests; None for those of the environment (``client/credentials.py``).
        tls: how to connect by TLS; True to trust the system's authorities, None to connect plainly.
    """

    opened_names = frozenset({"_accumulator", "_connections", "_ids", "_replies", "_sender"})

    def __init__(
        self,
        name_servers: str,
        group: str = "DEFAULT_PRODUCER_GROUP",
        *,
        timeout_ms: int = SEND_TIMEOUT_MS,
        tries: int = TRIES,
        compress_over: int | None = outgoing.COMPRESS_OVER_BYTES,
        compression: Literal["zlib", "lz4", "zstd"] = "zlib",
        in_flight_max: int = IN_FLIGHT_MAX,
        latency_fault_tolerance: bool = False,
        hooks: Sequence[SendHook] = (),
        trace: bool = False,
        linger_ms: int | None = None,
        batch_bytes: int = packing.BATCH_BYTES,
        idempotent_by: IdempotentBy | None = None,
        delay_level_max: int = LEVEL_MAX,
        heartbeat_interval_ms: int = HEARTBEAT_INTERVAL_MS,
        credentials: Credentials | None = None,
        tls: TLS | bool | None = None,
        clock: Clock | None = None,
    ) -> None:
        check(number(), in_flight_max=in_flight_max, batch_bytes=batch_bytes)
        check(number(1), timeout_ms=timeout_ms, tries=tries, delay_level_max=delay_level_max)
        check(HEARTBEAT_INTERVAL, heartbeat_interval_ms=heartbeat_interval_ms)
        check(or_none(number(0)), compress_over=compress_over, linger_ms=linger_ms)
        check(FLAG, latency_fault_tolerance=latency_fault_tolerance, trace=trace)
        check(several(instance_of(object), "SendHooks"), hooks=hooks)
        check(or_none(TEXT_OR_FUNCTION), idempotent_by=idempotent_by)
        if in_flight_max < 1:
            raise SettingsError(f"in_flight_max {in_flight_max}: at least one request must be under way")
        if not 0 < batch_bytes <= BATCH_BYTES_MAX:
            raise SettingsError(f"batch_bytes {batch_bytes}: give 1 to {BATCH_BYTES_MAX}")
        self.group = valid_group(group)
        self._addresses = parse_name_servers(name_servers)
        self._settings = SendSettings(group, timeout_ms, tries)
        self._compress_over = compress_over
        self._compression = compression_of(compression)
        self._in_flight_max = in_flight_max
        self._faults = BrokerFaults() if latency_fault_tolerance else None
        self._hooks = hooks
        self._is_traced = trace
        self._linger_ms = linger_ms
        self._batch_bytes = batch_bytes
        self._key_of = None if idempotent_by is None else key_by(idempotent_by)
        self._delay_level_max = delay_level_max
        self._heartbeat_interval_ms = heartbeat_interval_ms
        self._credentials = find_credentials(credentials)
        self._tls = tls_of(tls)
        self._clock = clock or SystemClock()

    async def _open(self) -> None:
        self._ids = new_id_maker()  # not before: forked processes would make the same ids
        self._connections = Connections(self._on_request, credentials=self._credentials, tls=self._tls)
        self._routes = routes = Routes(self._connections, self._addresses, gone_s=GONE_S)
        hooks = Hooks(self._hooks)
        self._tracer: SendTracer | None = None
        if self._is_traced:
            send = trace_sender(self._connections, routes, f"{self.group}-PUB-1", self._clock)
            self._tracer = SendTracer(send)
            hooks.add(self._tracer)
        self._client_id = client_id()
        self._presence = Presence(self._connections, self._client_id, self.group, self._heartbeat_interval_ms)
        self._replies = PendingReplies(self._clock)
        self._sender = Sender(
            self._connections, routes, self._settings, self._clock, self._faults, hooks, self._presence
        )
        self._accumulator: Accumulator | None = None
        if self._linger_ms is not None:
            self._accumulator = Accumulator(
                self._send, self._new_id, self._encode_with_id, self._linger_ms, self._batch_bytes
            )
        self._in_flight = LightSemaphore(self._in_flight_max)

    async def _close(self) -> None:
        """Send what waits, and close; requests that wait for replies fail."""
        self._replies.close()
        try:
            if self._accumulator is not None:
                await self._accumulator.close()
            if self._tracer is not None:
                await self._tracer.close()
        finally:  # also if this is cancelled
            await self._leave()

    async def _leave(self) -> None:
        try:
            await self._presence.close()
        finally:
            await self._connections.close()

    def _on_request(self, connection: Connection, command: Command) -> None:
        """Handle a request of a broker."""
        if command.code == RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT:
            self._replies.receive(connection, command)
        else:
            refuse_request(connection, command)

    async def send(self, message: Message, queue: Where = None) -> SendResult:
        """Send a message and wait until the broker has stored it.

        Args:
            queue: where to, or a function that chooses among the topic's queues. None sends a message with a
                sharding key to the key's queue and others round robin, and retries in another queue.

        Raises:
            MessageIllegal, IllegalName: the message breaks a limit.
            NoRoute: no broker accepts the topic.
            RemoteError: the broker refuses.
            NetworkError: no broker responds; the message may be stored nevertheless.
        """
        if type(message) is not Message or queue is not None:
            check_sent(message, queue)
        if self._key_of is not None:
            message = self._with_key(message)
        if self._accumulator is not None and queue is None and packing.can_linger(message):
            return await self._accumulator.add(message)
        return await self._send(self._encode(message), queue)

    async def send_many(
        self,
        messages: Iterable[Message],
        queue_of: Callable[[Message], MessageQueue | None] | None = None,
    ) -> list[SendResult]:
        """Send any number of messages of any topics in as few requests as possible; return a result for each.

        Messages with the same sharding key stay in order.

        Args:
            queue_of: returns the queue of a message, or None for any. By default it is the sharding key's.

        Raises:
            MessageIllegal, IllegalName: a message breaks a limit; the text has its index. Nothing was sent.
            NoRoute, NetworkError: the queue of a sharding key cannot be found; nothing was sent.
            PartlySent: some were not stored, or may not be; it has the result or the error of each.
        """
        check(or_none(FUNCTION), queue_of=queue_of)
        outcomes = await self._send_each(self._with_keys(messages), queue_of)
        results = [outcome for outcome in outcomes if isinstance(outcome, SendResult)]
        if len(results) < len(outcomes):
            raise PartlySent(outcomes)
        return results

    async def send_batch(self, messages: Sequence[Message], queue: Where = None) -> SendResult:
        """Send messages of one topic to one queue with one request: all are stored or none.

        Raises like ``send``.
        """
        check(WHERE, queue=queue)
        messages = self._with_keys(messages)
        ids = self._new_ids(len(messages))
        ready = outgoing.many(messages, ids, self._new_id())
        if queue is None:
            ready = replace(ready, sharding_key=outgoing.common_sharding_key(messages))
        return await self._send(ready, queue)

    async def send_oneway(self, message: Message, queue: Where = None) -> None:
        """Send a message without waiting for a response: a loss goes unnoticed. Raises like ``send``."""
        check_sent(message, queue)
        await self._sender.oneway(self._encode(self._with_key(message)), queue)

    async def request(
        self, message: Message, timeout_ms: int = REPLY_TIMEOUT_MS, queue: Where = None
    ) -> StoredMessage:
        """Send a message and wait for the reply of its consumer: see ``reply``.

        A broker pushes the reply, it is not read from a log: its offsets are -1, and its offset id is empty.

        Args:
            timeout_ms: timeout of the send and the reply together.
            queue: as for ``send``.

        Raises:
            RequestTimeout: no reply came in time; the message may be consumed nevertheless.
            NetworkError: no broker responds, or the producer was closed meanwhile; the same holds then.
            MessageIllegal, IllegalName, NoRoute, RemoteError: as ``send``.
            SettingsError: ``timeout_ms`` is less than 1.
        """
        check_sent(message, queue)
        check(number(), timeout_ms=timeout_ms)
        if timeout_ms < 1:
            raise SettingsError(f"timeout_ms {timeout_ms}: a reply takes at least 1")
        with self._replies.expect() as (correlation_id, reply):
            ready = request_of(self._encode(message), correlation_id, self._client_id, timeout_ms)
            try:
                async with asyncio.timeout(timeout_ms / 1000):
                    await self._send(ready, queue)
                    self._presence.add_topics((message.topic,), self._routes)
                    return await reply
            except TimeoutError:
                raise RequestTimeout(
                    f"no reply to message {ready.message_id} of topic {message.topic!r} within "
                    f"{timeout_ms} ms: see that a consumer replies, or give a larger timeout_ms"
                ) from None

    async def reply(
        self,
        request: StoredMessage,
        body: bytes,
        *,
        tags: str | None = None,
        keys: tuple[str, ...] = (),
        properties: Mapping[str, str] = {},
    ) -> SendResult:
        """Reply to a message that was sent by ``request``; wait until the requesting producer has the reply.

        Raises:
            MessageIllegal: ``request`` asks for no reply, or the reply breaks a limit.
            NoRoute: no broker of the request's cluster accepts replies.
            RemoteError: the producer has left the broker, or has not accepted the reply.
            NetworkError: no broker responds; the producer may have the reply nevertheless.
        """
        check(instance_of(StoredMessage), request=request)
        message = Message(reply_topic(request), body, tags, keys, properties)
        ready = reply_of(self._encode(message), request)
        return await self._send(ready, await self._sender.queue_at(request.store_host, message.topic))

    async def recall(self, topic: str, handle: str | None) -> str:
        """Recall a delayed message before it is delivered; return the message's id.

        A broker does not check that the message exists: a second recall succeeds like the first.

        Args:
            topic: the message's topic.
            handle: the ``recall_handle`` of its result.

        Raises:
            SettingsError: the handle is None, illegal or of another topic.
            NoRoute: the message's broker is not known.
            RemoteError: the message is due, or the broker recalls none; the remark names the remedy.
            NetworkError: the broker does not respond; the message may be recalled nevertheless.
        """
        check(TEXT, topic=topic)
        check(or_none(TEXT), handle=handle)
        message = checked_handle(topic, handle)
        address = await self._sender.address(MessageQueue(topic, message.broker_name, 0))
        request = recall_request(self.group, message)
        answer = await self._connections.request(address, request, self._settings.timeout_ms)
        return recalled_id(answer, message)

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues that a topic's messages are sent to. Raises NoRoute or NetworkError."""
        check(TEXT, topic=topic)
        return await self._sender.queues(topic)

    async def _send(self, ready: Outgoing, where: Where = None) -> SendResult:
        if not self._in_flight.try_acquire():
            await self._in_flight.wait_and_acquire()
        try:
            return await self._sender.send(ready, where)
        finally:
            self._in_flight.release()

    async def _send_each(
        self,
        messages: Sequence[Message],
        queue_of: Callable[[Message], MessageQueue | None] | None = None,
    ) -> list[SendResult | CometMQError]:
        outcomes: dict[int, SendResult | CometMQError] = {}
        with outgoing.naming_illegal(messages, self._encode_with_id):
            lanes = packing.pack(
                messages,
                await self._queues_of_keys(messages) if queue_of is None else queue_of,
                self._new_ids,
                batch_bytes=self._batch_bytes,
                compress=self._encode_with_id,
            )
        if len(lanes) == 1:  # a task would cost a third of what the send does
            await self._send_lane(lanes[0], outcomes)
        else:
            await asyncio.gather(*(self._send_lane(lane, outcomes) for lane in lanes))
        return [outcomes[index] for index in range(len(messages))]

    async def _queues_of_keys(
        self, messages: Sequence[Message]
    ) -> Callable[[Message], MessageQueue | None] | None:
        keyed = {message.topic for message in messages if outgoing.queue_key(message) is not None}
        if not keyed:
            return None
        queues = {topic: await self.queues(valid_topic(topic)) for topic in keyed}

        def queue_of(message: Message) -> MessageQueue | None:
            key = outgoing.queue_key(message)
            return None if key is None else queue_of_key(queues[message.topic], key)

        return queue_of

    async def _send_lane(self, lane: Lane, outcomes: dict[int, SendResult | CometMQError]) -> None:
        """Send requests one after the other; after a failure none is sent, to keep the order."""
        failure: CometMQError | None = None
        for request in lane.requests:
            if failure is None:
                try:
                    result = await self._send(request.ready, lane.queue)
                except CometMQError as error:
                    failure = error
                else:
                    outcomes.update(zip(request.indexes, result_of_each(result, request.ids), strict=True))
            if failure is not None:
                outcomes.update(dict.fromkeys(request.indexes, failure))

    def _with_keys(self, messages: Iterable[Message]) -> list[Message]:
        plain = listed(messages)
        return plain if self._key_of is None else [self._with_key(message) for message in plain]

    def _with_key(self, message: Message) -> Message:
        """Return a message with its idempotence key, if keys are configured and it has none."""
        if self._key_of is None or IDEMPOTENCE_KEY in message.properties:
            return message
        key = self._key_of(message) or self._new_id()
        return replace(message, properties={**message.properties, IDEMPOTENCE_KEY: key})

    def _encode(self, message: Message) -> Outgoing:
        return self._encode_with_id(message, self._new_id())

    def _encode_with_id(self, message: Message, unique_id: str) -> Outgoing:
        return outgoing.single(
            message,
            unique_id,
            compress_over=self._compress_over,
            compression_type=self._compression,
            delay_level_max=self._delay_level_max,
        )

    def _new_ids(self, number: int) -> list[str]:
        return self._ids.make_many(self._clock.now_ms(), number)

    def _new_id(self) -> str:
        return self._ids.make(self._clock.now_ms())
