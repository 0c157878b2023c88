"""The clients for programs without asyncio: the same ones, run by a loop in a background thread.

::

    from cometmq.blocking import Producer

    with Producer("127.0.0.1:9876", group="orders") as producer:
        producer.send(Message("orders", b"paid"))

Any number of threads may share a client. One loop serves all clients of a process: it is started when the
first is opened and ends with the last. What threads ask at the same time goes to it together, so that sends
of many threads share writes as those of many tasks do.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final, Generic, Protocol, Self, TypeVar

from cometmq import client
from cometmq.client.consumer import HandlerT
from cometmq.client.lite_pull import POLL_TIMEOUT_MS
from cometmq.client.sending import Where
from cometmq.client.subscription import Handler
from cometmq.message import Message, MessageQueue, StoredMessage

__all__ = ["Consumer", "LitePullConsumer", "Producer", "PullConsumer"]

_T = TypeVar("_T")


class _LoopThread:
    """The loop and its thread, which are there while somebody uses them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._asked: deque[_Call] = deque()
        self._is_called = False

    def join(self) -> None:
        """Use the loop from now on."""
        with self._lock:
            if not self._users:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="cometmq", daemon=True)
                self._thread.start()
            self._users += 1

    def leave(self) -> None:
        """Use it no more."""
        with self._lock:
            self._users -= 1
            if not self._users:
                self.run(self._loop.shutdown_default_executor())
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._thread.join()
                self._loop.close()

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Give what ``work`` gives, when it is done. An interrupt of the caller, as by Ctrl-C, cancels it."""
        call = _Call(work)
        self._asked.append(call)
        if not self._is_called:  # else the loop has yet to look, and will find it
            self._is_called = True
            self._loop.call_soon_threadsafe(self._begin)
        try:
            call.answered.acquire()
        except BaseException:
            self._loop.call_soon_threadsafe(call.cancel)
            raise
        try:
            if call.error is not None:
                raise call.error
            result: _T = call.result
            return result
        finally:
            del call  # the error's traceback would hold it, and it the error

    def call(self, function: Callable[..., _T], *arguments: Any) -> _T:
        """Give what a function gives, called in the loop; by a handler that runs there, at once."""

        async def work() -> _T:
            return function(*arguments)

        if threading.current_thread() is self._thread:
            return function(*arguments)
        return self.run(work())

    def _begin(self) -> None:
        self._is_called = False
        while self._asked:
            call = self._asked.popleft()
            call.task = self._loop.create_task(call.answer())


class _Call:
    """What a thread waits for: a future that costs less than those of ``concurrent.futures``.

    Attributes:
        answered: locked until there is a result or an error.
    """

    __slots__ = ("_work", "answered", "error", "result", "task")

    def __init__(self, work: Coroutine[Any, Any, Any]) -> None:
        self._work = work
        self.answered = threading.Lock()
        self.answered.acquire()
        self.result: Any = None
        self.error: BaseException | None = None
        self.task: asyncio.Task[None] | None = None

    async def answer(self) -> None:
        """Do the work, in the loop."""
        try:
            self.result = await self._work
        except BaseException as error:  # noqa: BLE001 it is the caller's, in another thread
            self.error = error
        self.answered.release()

    def cancel(self) -> None:
        """Give the work up, in the loop: nobody waits for it any more."""
        if self.task is not None:
            self.task.cancel()


_LOOP: Final = _LoopThread()


class _Client(Protocol):
    async def __aenter__(self) -> Any: ...

    async def __aexit__(self, kind: object, *_: object) -> None: ...


_ClientT = TypeVar("_ClientT", bound=_Client)


class _Blocking(Generic[_ClientT]):
    """A client that is opened and closed by ``with``."""

    def __init__(self, asyncio_client: _ClientT) -> None:
        self._client = asyncio_client
        self._is_open = False

    def __enter__(self) -> Self:
        """Open it."""
        _LOOP.join()
        try:
            _LOOP.run(self._client.__aenter__())
        except BaseException:
            _LOOP.leave()
            raise
        self._is_open = True
        return self

    def __exit__(self, kind: object, *failure: object) -> None:
        """Close it."""
        self._is_open = False
        try:
            _LOOP.run(self._client.__aexit__(kind, *failure))
        finally:
            _LOOP.leave()


class Producer(_Blocking[client.Producer]):
    """Sends messages; takes the arguments of ``cometmq.Producer``, whose methods these are."""

    def __init__(self, name_servers: str, group: str = "DEFAULT_PRODUCER_GROUP", **options: Any) -> None:
        super().__init__(client.Producer(name_servers, group, **options))

    def send(self, message: Message, queue: Where = None) -> client.SendResult:
        """Send a message and wait until the broker has stored it."""
        return _LOOP.run(self._client.send(message, queue))

    def send_many(self, messages: Iterable[Message]) -> list[client.SendResult]:
        """Send any number of messages of any topics, in as few requests as will do."""
        return _LOOP.run(self._client.send_many(list(messages)))

    def send_batch(self, messages: Sequence[Message], queue: Where = None) -> client.SendResult:
        """Send messages of one topic to one queue with one request."""
        return _LOOP.run(self._client.send_batch(messages, queue))

    def send_oneway(self, message: Message, queue: Where = None) -> None:
        """Send a message without waiting for an answer."""
        _LOOP.run(self._client.send_oneway(message, queue))

    def queues(self, topic: str) -> list[MessageQueue]:
        """Give the queues that a topic's messages are sent to."""
        return _LOOP.run(self._client.queues(topic))


class PullConsumer(_Blocking[client.PullConsumer]):
    """Reads queues; takes the arguments of ``cometmq.PullConsumer``, whose methods these are."""

    def __init__(self, name_servers: str, group: str, **options: Any) -> None:
        super().__init__(client.PullConsumer(name_servers, group, **options))

    def queues(self, topic: str) -> list[MessageQueue]:
        """Give a topic's queues that can be read."""
        return _LOOP.run(self._client.queues(topic))

    def pull(self, queue: MessageQueue, queue_offset: int, **options: Any) -> client.Pulled:
        """Read messages of a queue from ``queue_offset`` on."""
        return _LOOP.run(self._client.pull(queue, queue_offset, **options))

    def messages(self, queue: MessageQueue, queue_offset: int = 0, **options: Any) -> Iterator[StoredMessage]:
        """Go through a queue's messages from ``queue_offset`` to its end."""
        messages = self._client.messages(queue, queue_offset, **options)

        async def following() -> StoredMessage | None:
            return await anext(messages, None)

        while (message := _LOOP.run(following())) is not None:
            yield message

    def committed(self, queue: MessageQueue) -> int | None:
        """Give the offset that the group has committed, or None."""
        return _LOOP.run(self._client.committed(queue))

    def commit(self, queue: MessageQueue, queue_offset: int) -> None:
        """Commit for the group that everything before ``queue_offset`` is handled."""
        _LOOP.run(self._client.commit(queue, queue_offset))

    def min_offset(self, queue: MessageQueue) -> int:
        """Give the first queue offset that can be read."""
        return _LOOP.run(self._client.min_offset(queue))

    def max_offset(self, queue: MessageQueue) -> int:
        """Give the queue offset behind the last message."""
        return _LOOP.run(self._client.max_offset(queue))

    def offset_by_time(self, queue: MessageQueue, time_ms: int) -> int:
        """Give the queue offset of the first message stored at or after ``time_ms`` since the epoch."""
        return _LOOP.run(self._client.offset_by_time(queue, time_ms))


class LitePullConsumer(_Blocking[client.LitePullConsumer]):
    """Polls messages; takes the arguments of ``cometmq.LitePullConsumer``, whose methods these are."""

    def __init__(self, name_servers: str, group: str, **options: Any) -> None:
        super().__init__(client.LitePullConsumer(name_servers, group, **options))

    def subscribe(self, topic: str, tags: str = "*", **options: Any) -> None:
        """Share a topic's queues with the group."""
        _LOOP.run(self._client.subscribe(topic, tags, **options))

    def assign(self, queues: Iterable[MessageQueue]) -> None:
        """Read these queues and no others, whoever else does."""
        _LOOP.run(self._client.assign(list(queues)))

    def poll(self, timeout_ms: int = POLL_TIMEOUT_MS, **options: Any) -> list[StoredMessage]:
        """Give the next messages of one queue; what the poll before gave is done."""
        return _LOOP.run(self._client.poll(timeout_ms, **options))

    def commit(self) -> None:
        """Commit all that polls have given."""
        _LOOP.run(self._client.commit())

    def seek(self, queue: MessageQueue, queue_offset: int) -> None:
        """Go on in a queue at another offset."""
        _LOOP.call(self._client.seek, queue, queue_offset)

    def pause(self, *queues: MessageQueue) -> None:
        """Give no messages of these queues until they are resumed."""
        _LOOP.call(self._client.pause, *queues)

    def resume(self, *queues: MessageQueue) -> None:
        """Give messages of these queues again."""
        _LOOP.call(self._client.resume, *queues)

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that are consumed."""
        return _LOOP.call(lambda: self._client.queues)


class Consumer(_Blocking[client.Consumer]):
    """Handles messages as a member of a group; takes the arguments of ``cometmq.Consumer``.

    Plain handlers run in threads, as there; async ones run in the background loop.
    """

    def __init__(self, name_servers: str, group: str, **options: Any) -> None:
        super().__init__(client.Consumer(name_servers, group, **options))

    def on(self, topic: str, tags: str = "*", **options: Any) -> Callable[[HandlerT], HandlerT]:
        """Make the function below it the handler of a topic."""

        def decorate(handler: HandlerT) -> HandlerT:
            self.subscribe(topic, handler, tags, **options)
            return handler

        return decorate

    def subscribe(self, topic: str, handler: Handler, tags: str = "*", **options: Any) -> None:
        """Let ``handler`` get the messages of a topic, at once if the consumer has started."""
        self._change(partial(self._client.subscribe, topic, handler, tags, **options))

    def unsubscribe(self, topic: str) -> None:
        """Let nobody get the messages of a topic any more: its queues are given up soon."""
        self._change(partial(self._client.unsubscribe, topic))

    def stop(self) -> None:
        """Begin no more handlers, wait for those that run, commit, and leave the group."""
        _LOOP.run(self._client.stop())

    def wait(self) -> None:
        """Wait until the consumer is stopped, by ``stop`` in another thread or by Ctrl-C."""
        _LOOP.run(self._client.wait())

    def _change(self, subscriptions: Callable[[], None]) -> None:
        if self._is_open:
            _LOOP.call(subscriptions)
        else:
            subscriptions()
