"""The clients for programs without asyncio: the same clients, run by an event loop in a background thread.

::

    from cometmq.blocking import Producer

    with Producer("127.0.0.1:9876", group="orders") as producer:
        producer.send(Message("orders", b"paid"))

Any number of threads may share a client. One loop serves all clients of a process: it starts when the first
client is opened and ends when the last one is closed. Calls that threads make at the same time reach the loop
together, so the sends of many threads share writes as those of many tasks do.

Outside its ``with`` statement a client raises NetworkError; so do calls that still wait when it is closed,
and calls in a process that was forked from the one that opened it: each process opens its own clients.
"""

import inspect
import logging
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Generic, Protocol, Self, TypeVar

from cometmq import client
from cometmq.client.consumer.consumer import HandlerT
from cometmq.client.consumer.lite_pull import POLL_TIMEOUT_MS
from cometmq.client.consumer.subscription import Handler
from cometmq.client.loop_thread import CLOSED, IN_LOOP, SHARED, LoopThread
from cometmq.client.producer.producer import REPLY_TIMEOUT_MS
from cometmq.client.producer.sending import Where
from cometmq.client.producer.transaction import Check, Execute, state_of
from cometmq.errors import NetworkError, SettingsError
from cometmq.message import Message, MessageQueue, StoredMessage

__all__ = ["Consumer", "LitePullConsumer", "Producer", "PullConsumer", "TransactionProducer"]

_log = logging.getLogger(__name__)

_T = TypeVar("_T")


class _Client(Protocol):
    async def __aenter__(self) -> Any: ...

    async def __aexit__(self, kind: object, *_: object) -> None: ...


_ClientT = TypeVar("_ClientT", bound=_Client)


class _Blocking(Generic[_ClientT]):
    """An asyncio client that ``with`` opens and closes and whose methods wait for the result."""

    def __init__(self, asyncio_client: _ClientT) -> None:
        self._client = asyncio_client
        self._thread: LoopThread | None = None

    def __enter__(self) -> Self:
        """Open the client. Raises SettingsError if it is open already."""
        if self._is_open:
            raise SettingsError(f"this {type(self).__name__} is open already: threads may share it as it is")
        thread = SHARED.join()
        try:
            thread.run(self._client.__aenter__())
        except BaseException:
            SHARED.leave()
            raise
        self._thread = thread
        return self

    def __exit__(self, kind: object, *failure: object) -> None:
        """Close the client, if it is open. Raises RuntimeError when an async handler calls it in the loop."""
        thread = self._thread
        if thread is None or not self._is_open:
            return
        closing = self._client.__aexit__(kind, *failure)
        if thread.is_current():
            closing.close()
            raise RuntimeError(IN_LOOP)
        self._thread = None
        try:
            thread.run(closing)
        finally:
            SHARED.leave()

    @property
    def _is_open(self) -> bool:
        return self._thread is not None and self._thread.ended is None

    def _run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine in the loop, return its result. Raises NetworkError if the client is not open."""
        if (thread := self._thread) is None:
            work.close()
            raise NetworkError(CLOSED)
        return thread.run(work)

    def _call(self, function: Callable[..., _T], *arguments: Any) -> _T:
        """Call a function in the loop. Raises NetworkError if the client is not open."""
        if (thread := self._thread) is None:
            raise NetworkError(CLOSED)
        return thread.call(function, *arguments)


class Producer(_Blocking[client.Producer]):
    """A producer for threads, with the arguments and methods of ``cometmq.Producer``."""

    def __init__(self, name_servers: str, group: str = "DEFAULT_PRODUCER_GROUP", **options: Any) -> None:
        super().__init__(client.Producer(name_servers, group, **options))

    def send(self, message: Message, queue: Where = None) -> client.SendResult:
        """Send a message and wait until the broker has stored it."""
        return self._run(self._client.send(message, queue))

    def send_many(self, messages: Iterable[Message]) -> list[client.SendResult]:
        """Send any number of messages of any topics in as few requests as possible."""
        return self._run(self._client.send_many(list(messages)))

    def send_batch(self, messages: Sequence[Message], queue: Where = None) -> client.SendResult:
        """Send messages of one topic to one queue with one request."""
        return self._run(self._client.send_batch(messages, queue))

    def send_oneway(self, message: Message, queue: Where = None) -> None:
        """Send a message without waiting for an answer."""
        self._run(self._client.send_oneway(message, queue))

    def request(
        self, message: Message, timeout_ms: int = REPLY_TIMEOUT_MS, queue: Where = None
    ) -> StoredMessage:
        """Send a message and wait for the reply of the consumer that receives it."""
        return self._run(self._client.request(message, timeout_ms, queue))

    def reply(
        self,
        request: StoredMessage,
        body: bytes,
        *,
        tags: str | None = None,
        keys: tuple[str, ...] = (),
        properties: Mapping[str, str] = {},
    ) -> client.SendResult:
        """Reply to a message sent by ``request``; wait until the requesting producer has the reply."""
        return self._run(self._client.reply(request, body, tags=tags, keys=keys, properties=properties))

    def recall(self, topic: str, handle: str | None) -> str:
        """Recall a delayed message before it is delivered to any consumer; return the message's id."""
        return self._run(self._client.recall(topic, handle))

    def queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues to which messages of a topic are sent."""
        return self._run(self._client.queues(topic))


class TransactionProducer(Producer):
    """A transaction producer for threads, with the arguments of ``cometmq.TransactionProducer``.

    A ``check`` that is a plain function runs in a thread, an async one in the background loop.
    """

    def __init__(self, name_servers: str, group: str, *, check: Check, **options: Any) -> None:
        self._transactions = client.TransactionProducer(name_servers, group, check=check, **options)
        _Blocking.__init__(self, self._transactions)

    def send_in_transaction(
        self, message: Message, execute: Execute, queue: Where = None
    ) -> client.TransactionResult:
        """Send a half message, run the local transaction, and commit or roll back by its result.

        An ``execute`` that is a plain function runs in the calling thread, an async one in the background
        loop.
        """
        if inspect.iscoroutinefunction(execute):
            return self._run(self._transactions.send_in_transaction(message, execute, queue))
        sent = self._run(self._transactions.send_half(message, queue))
        state = client.TransactionState.ROLLBACK
        if sent.status is client.SendStatus.SEND_OK:
            try:
                state = state_of(execute(message))
            except BaseException as error:
                self._end(sent, client.TransactionState.UNKNOWN, error)
                raise
        self._end(sent, state)
        return client.TransactionResult(sent, state)

    def _end(
        self, sent: client.SendResult, state: client.TransactionState, failure: BaseException | None = None
    ) -> None:
        try:
            self._run(self._transactions.end_transaction(sent, state, failure))
        except NetworkError as error:  # it was closed meanwhile, which undoes no local transaction
            _log.warning(
                "%s of message %s could not be sent to the broker: %s", state.name, sent.message_id, error
            )


class PullConsumer(_Blocking[client.PullConsumer]):
    """A pull consumer for threads, with the arguments and methods of ``cometmq.PullConsumer``."""

    def __init__(self, name_servers: str, group: str, **options: Any) -> None:
        super().__init__(client.PullConsumer(name_servers, group, **options))

    def queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues of a topic that can be read."""
        return self._run(self._client.queues(topic))

    def pull(self, queue: MessageQueue, queue_offset: int, **options: Any) -> client.Pulled:
        """Read messages of a queue from ``queue_offset`` on."""
        return self._run(self._client.pull(queue, queue_offset, **options))

    def messages(self, queue: MessageQueue, queue_offset: int = 0, **options: Any) -> Iterator[StoredMessage]:
        """Iterate over a queue's messages from ``queue_offset`` to its end."""
        messages = self._client.messages(queue, queue_offset, **options)

        async def following() -> StoredMessage | None:
            return await anext(messages, None)

        while (message := self._run(following())) is not None:
            yield message

    def committed(self, queue: MessageQueue) -> int | None:
        """Return the queue offset that the group has committed, or None."""
        return self._run(self._client.committed(queue))

    def commit(self, queue: MessageQueue, queue_offset: int) -> None:
        """Commit for the group that everything before ``queue_offset`` is handled."""
        self._run(self._client.commit(queue, queue_offset))

    def min_offset(self, queue: MessageQueue) -> int:
        """Return the lowest queue offset that can be read."""
        return self._run(self._client.min_offset(queue))

    def max_offset(self, queue: MessageQueue) -> int:
        """Return the queue offset behind the last message."""
        return self._run(self._client.max_offset(queue))

    def offset_by_time(self, queue: MessageQueue, time_ms: int) -> int:
        """Return the queue offset of the first message stored at or after ``time_ms``, ms since the epoch."""
        return self._run(self._client.offset_by_time(queue, time_ms))


class LitePullConsumer(_Blocking[client.LitePullConsumer]):
    """A lite pull consumer for threads, with the arguments and methods of ``cometmq.LitePullConsumer``."""

    def __init__(self, name_servers: str, group: str, **options: Any) -> None:
        super().__init__(client.LitePullConsumer(name_servers, group, **options))

    def subscribe(self, topic: str, tags: str = "*", **options: Any) -> None:
        """Subscribe to a topic, sharing its queues with the other members of the group."""
        self._run(self._client.subscribe(topic, tags, **options))

    def assign(self, queues: Iterable[MessageQueue]) -> None:
        """Read these queues and no others, whether or not other consumers read them."""
        self._run(self._client.assign(list(queues)))

    def poll(self, timeout_ms: int = POLL_TIMEOUT_MS, **options: Any) -> list[StoredMessage]:
        """Return the next messages of one queue. The messages of the previous poll then count as handled."""
        return self._run(self._client.poll(timeout_ms, **options))

    def commit(self) -> None:
        """Commit the offsets of all messages that polls have returned."""
        self._run(self._client.commit())

    def seek(self, queue: MessageQueue, queue_offset: int) -> None:
        """Continue reading a queue at another offset."""
        self._call(self._client.seek, queue, queue_offset)

    def pause(self, *queues: MessageQueue) -> None:
        """Return no messages of these queues from ``poll`` until they are resumed."""
        self._call(self._client.pause, *queues)

    def resume(self, *queues: MessageQueue) -> None:
        """Return messages of these queues from ``poll`` again."""
        self._call(self._client.resume, *queues)

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that are read now."""
        return self._call(lambda: self._client.queues)


class Consumer(_Blocking[client.Consumer]):
    """A push consumer for threads, with the arguments and methods of ``cometmq.Consumer``.

    Handlers that are plain functions run in threads, async ones in the background loop.
    """

    def __init__(self, name_servers: str, group: str, **options: Any) -> None:
        super().__init__(client.Consumer(name_servers, group, **options))

    def on(self, topic: str, tags: str = "*", **options: Any) -> Callable[[HandlerT], HandlerT]:
        """Register the decorated function as the handler of a topic."""

        def decorate(handler: HandlerT) -> HandlerT:
            self.subscribe(topic, handler, tags, **options)
            return handler

        return decorate

    def subscribe(self, topic: str, handler: Handler, tags: str = "*", **options: Any) -> None:
        """Register the handler of a topic; a consumer that has started calls it at once."""
        self._change(partial(self._client.subscribe, topic, handler, tags, **options))

    def unsubscribe(self, topic: str) -> None:
        """Unregister the handler of a topic; the consumer releases the topic's queues soon after."""
        self._change(partial(self._client.unsubscribe, topic))

    def stop(self) -> None:
        """Stop: start no more handlers, wait for the running ones, commit and leave the group."""
        if self._is_open:
            self._run(self._client.stop())

    def wait(self) -> None:
        """Wait until the consumer is stopped by ``stop`` in another thread or by Ctrl-C."""
        self._run(self._client.wait())

    def _change(self, subscriptions: Callable[[], None]) -> None:
        if self._is_open:
            self._call(subscriptions)
        else:
            subscriptions()
