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
from collections.abc import Callable, Coroutine, Iterable, Iterator
from functools import partial, wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar

from cometmq import client
from cometmq.client.consumer.consumer import HandlerT
from cometmq.client.handling.subscription import Handler
from cometmq.client.loop_thread import CLOSED, IN_LOOP, SHARED_LOOP, LoopThread
from cometmq.client.producer.sending import Where
from cometmq.client.producer.transaction import Check, Execute, checked_state
from cometmq.errors import NetworkError, SettingsError
from cometmq.logs import get_logger
from cometmq.message import Message, MessageQueue, StoredMessage

__all__ = [
    "Consumer",
    "LitePullConsumer",
    "Producer",
    "PullConsumer",
    "SimpleConsumer",
    "TransactionProducer",
]

_log = get_logger(__name__)

_T = TypeVar("_T")
_P = ParamSpec("_P")


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
        thread = SHARED_LOOP.acquire()
        try:
            thread.run(self._client.__aenter__())
        except BaseException:
            SHARED_LOOP.release()
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
            SHARED_LOOP.release()

    @property
    def _is_open(self) -> bool:
        return self._thread is not None and self._thread.ended is None

    def _run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine in the loop, return its result. Raises NetworkError if the client is not open."""
        if (thread := self._thread) is None:
            work.close()
            raise NetworkError(CLOSED)
        return thread.run(work)

    def _call(self, function: Callable[[], _T]) -> _T:
        """Call a function in the loop. Raises NetworkError if the client is not open."""
        if (thread := self._thread) is None:
            raise NetworkError(CLOSED)
        return thread.call(function)


def _waiting(
    method: Callable[Concatenate[Any, _P], Coroutine[Any, Any, _T]],
) -> Callable[Concatenate[Any, _P], _T]:
    """Return a method that runs an async one in the loop and waits for its result."""

    @wraps(method)
    def wait(self: _Blocking[Any], /, *arguments: _P.args, **options: _P.kwargs) -> _T:
        return self._run(method(self._client, *arguments, **options))

    return wait


def _in_loop(method: Callable[Concatenate[Any, _P], _T]) -> Callable[Concatenate[Any, _P], _T]:
    """Return a method that calls a plain one in the loop."""

    @wraps(method)
    def call(self: _Blocking[Any], /, *arguments: _P.args, **options: _P.kwargs) -> _T:
        return self._call(partial(method, self._client, *arguments, **options))

    return call


class Producer(_Blocking[client.Producer]):
    """A producer for threads, with the arguments and methods of ``cometmq.Producer``."""

    def __init__(self, name_servers: str, group: str = "DEFAULT_PRODUCER_GROUP", **options: Any) -> None:
        super().__init__(client.Producer(name_servers, group, **options))

    send = _waiting(client.Producer.send)
    send_batch = _waiting(client.Producer.send_batch)
    send_oneway = _waiting(client.Producer.send_oneway)
    request = _waiting(client.Producer.request)
    reply = _waiting(client.Producer.reply)
    recall = _waiting(client.Producer.recall)
    queues = _waiting(client.Producer.queues)

    def send_many(self, messages: Iterable[Message]) -> list[client.SendResult]:
        """Send any number of messages of any topics in as few requests as possible."""
        return self._run(self._client.send_many(list(messages)))


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
                state = checked_state(execute(message))
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

    queues = _waiting(client.PullConsumer.queues)
    pull = _waiting(client.PullConsumer.pull)
    committed = _waiting(client.PullConsumer.committed)
    commit = _waiting(client.PullConsumer.commit)
    min_offset = _waiting(client.PullConsumer.min_offset)
    max_offset = _waiting(client.PullConsumer.max_offset)
    offset_by_time = _waiting(client.PullConsumer.offset_by_time)

    def messages(self, queue: MessageQueue, queue_offset: int = 0, **options: Any) -> Iterator[StoredMessage]:
        """Iterate over a queue's messages from ``queue_offset`` to its end."""
        messages = self._client.messages(queue, queue_offset, **options)

        async def following() -> StoredMessage | None:
            return await anext(messages, None)

        while (message := self._run(following())) is not None:
            yield message


class LitePullConsumer(_Blocking[client.LitePullConsumer]):
    """A lite pull consumer for threads, with the arguments and methods of ``cometmq.LitePullConsumer``."""

    def __init__(self, name_servers: str, group: str, **options: Any) -> None:
        super().__init__(client.LitePullConsumer(name_servers, group, **options))

    subscribe = _waiting(client.LitePullConsumer.subscribe)
    poll = _waiting(client.LitePullConsumer.poll)
    commit = _waiting(client.LitePullConsumer.commit)
    seek = _in_loop(client.LitePullConsumer.seek)
    pause = _in_loop(client.LitePullConsumer.pause)
    resume = _in_loop(client.LitePullConsumer.resume)

    def assign(self, queues: Iterable[MessageQueue]) -> None:
        """Read these queues and no others, whether or not other consumers read them."""
        self._run(self._client.assign(list(queues)))

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that are read now."""
        return self._call(lambda: self._client.queues)


class SimpleConsumer(_Blocking[client.SimpleConsumer]):
    """A simple consumer for threads, with the arguments and methods of ``cometmq.SimpleConsumer``."""

    def __init__(self, name_servers: str, group: str, **options: Any) -> None:
        super().__init__(client.SimpleConsumer(name_servers, group, **options))

    subscribe = _waiting(client.SimpleConsumer.subscribe)
    unsubscribe = _waiting(client.SimpleConsumer.unsubscribe)
    receive = _waiting(client.SimpleConsumer.receive)
    ack = _waiting(client.SimpleConsumer.ack)
    ack_all = _waiting(client.SimpleConsumer.ack_all)
    change_invisible = _waiting(client.SimpleConsumer.change_invisible)


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

    wait = _waiting(client.Consumer.wait)

    def _change(self, subscriptions: Callable[[], None]) -> None:
        if self._is_open:
            self._call(subscriptions)
        else:
            subscriptions()
