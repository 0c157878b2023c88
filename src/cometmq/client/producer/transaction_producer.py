"""The transaction producer: its messages are delivered if a local transaction commits.

::

    async def check(message): ...

    async with TransactionProducer("127.0.0.1:9876", "shop", check=check) as producer:
        await producer.send_in_transaction(Message("orders", b"paid"), execute)
"""

import inspect
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Literal, TypedDict, Unpack

from cometmq import arguments
from cometmq.arguments import FUNCTION, TEXTS, number
from cometmq.client.calling import call
from cometmq.client.producer.check_back import Checks
from cometmq.client.producer.hooks import SendHook
from cometmq.client.producer.idempotence_key import IdempotentBy
from cometmq.client.producer.producer import Producer
from cometmq.client.producer.send_arguments import check_sent
from cometmq.client.producer.send_result import SendResult, SendStatus
from cometmq.client.producer.sending import Where
from cometmq.client.producer.transaction import (
    Check,
    Execute,
    TransactionResult,
    TransactionState,
    check_in_transaction,
    checked_state,
    end_header,
    end_request,
    half_message,
)
from cometmq.errors import CometMQError, SettingsError
from cometmq.format.layout import valid_topic
from cometmq.io.clock import Clock
from cometmq.logs import get_logger
from cometmq.message import Message
from cometmq.net.connection import Connection
from cometmq.net.tls.client import TLS
from cometmq.wire.acl import Credentials
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command

MAX_CONCURRENCY: Final = 20
STOP_TIMEOUT_MS: Final = 30_000

_log = get_logger(__name__)


class ProducerOptions(TypedDict, total=False):
    """The options of ``Producer``."""

    timeout_ms: int
    tries: int
    compress_over: int | None
    compression: Literal["zlib", "lz4", "zstd"]
    in_flight_max: int
    latency_fault_tolerance: bool
    hooks: Sequence[SendHook]
    trace: bool
    linger_ms: int | None
    batch_bytes: int
    idempotent_by: IdempotentBy | None
    delay_level_max: int
    heartbeat_interval_ms: int
    credentials: Credentials | None
    tls: TLS | bool | None
    clock: Clock | None


class TransactionProducer(Producer):
    """Sends messages as a ``Producer`` does, and messages that depend on a local transaction.

    Args:
        name_servers: ``host:port``, several joined by ``;``.
        group: name of the producer group. Brokers ask any of its producers for the state of a transaction:
            all of them must be able to find it.
        check: returns the state of a message's local transaction, which the broker does not know, as after
            a crash. It may be an async function or a plain one, which runs in a thread; it is called for one
            message at a time. If it raises, the broker asks again.
        topics: this producer is registered with their brokers from the start, so that they can ask it for
            transactions left open by it or by the process before it. With other brokers it is registered
            when it first sends to them.
        max_concurrency: how many plain local transactions run at a time, in as many threads.
        stop_timeout_ms: how long closing waits for a check before it cancels it.
        options: the other options of ``Producer``. ``linger_ms`` and ``idempotent_by`` apply to messages
            that are sent without a transaction.

    Raises:
        SettingsError: an argument cannot be used.
        IllegalName: the group's name, or a topic's.
    """

    def __init__(
        self,
        name_servers: str,
        group: str,
        *,
        check: Check,
        topics: Sequence[str] = (),
        max_concurrency: int = MAX_CONCURRENCY,
        stop_timeout_ms: int = STOP_TIMEOUT_MS,
        **options: Unpack[ProducerOptions],
    ) -> None:
        arguments.check(FUNCTION, check=check)
        arguments.check(number(), max_concurrency=max_concurrency)
        arguments.check(number(0), stop_timeout_ms=stop_timeout_ms)
        super().__init__(name_servers, group, **options)
        if isinstance(topics, str):
            raise SettingsError(f"topics {topics!r}: give them as a tuple, ({topics!r},)")
        arguments.check(TEXTS, topics=topics)
        if max_concurrency < 1:
            raise SettingsError(f"max_concurrency {max_concurrency}: at least one transaction must run")
        self._check = check
        self._topics = [valid_topic(topic) for topic in topics]
        self._max_concurrency = max_concurrency
        self._stop_timeout_ms = stop_timeout_ms

    async def _open(self) -> None:
        await super()._open()
        self._pool = ThreadPoolExecutor(self._max_concurrency, "cometmq-transaction")
        self._checks = Checks(self.group, self._check, self._connections.oneway)
        self._presence.add_topics(self._topics, self._routes)

    async def _close(self) -> None:
        """Wait for a running check, then close."""
        try:
            await self._checks.close(self._stop_timeout_ms / 1000)
        finally:
            self._pool.shutdown(wait=False)
            await super()._close()

    async def send_in_transaction(
        self, message: Message, execute: Execute, queue: Where = None
    ) -> TransactionResult:
        """Send a message that is delivered if the local transaction commits.

        Args:
            execute: runs the local transaction and returns its state: an async function, or a plain one,
                which runs in a thread. It is called when the message is stored. If the message may not be
                safe (any status but SEND_OK) it is not called, and the message is rolled back.
            queue: as for ``send``.

        Raises, with nothing executed:
            MessageIllegal, IllegalName: it breaks a limit, or has a delay level or an idempotence key.
            NoRoute, RemoteError, NetworkError: it is not stored, or may not be, as by ``send``.

        Raises what ``execute`` raises, and SettingsError if it returns no state; later ``check`` is called,
        as it is if this call is cancelled (a plain ``execute`` then runs on in its thread).
        """
        arguments.check(FUNCTION, execute=execute)
        sent = await self.send_half(message, queue)
        state = TransactionState.ROLLBACK
        if sent.status is SendStatus.SEND_OK:
            try:
                is_async = inspect.iscoroutinefunction(execute)
                state = checked_state(await call(execute, message, self._pool, is_async=is_async))
            except BaseException as error:
                await self.end_transaction(sent, TransactionState.UNKNOWN, error)
                raise
        await self.end_transaction(sent, state)
        return TransactionResult(sent, state)

    async def send_half(self, message: Message, queue: Where = None) -> SendResult:
        """Send a half message, the first step of ``send_in_transaction``. Raises like that."""
        check_sent(message, queue)
        check_in_transaction(message)
        return await self._send(half_message(self._encode(message), self.group), queue)

    async def end_transaction(
        self, sent: SendResult, state: TransactionState, failure: BaseException | None = None
    ) -> None:
        """Send the state of a transaction to the broker, the last step of ``send_in_transaction``.

        There is no response. If the state cannot be sent, that is logged: the broker will ask for it.
        """
        try:
            request = end_request(end_header(self.group, sent, state), failure)
            await self._connections.oneway(await self._sender.address(sent.queue), request)
        except CometMQError as error:
            message = "%s of message %s could not be sent, the broker will ask: %s"
            _log.warning(message, state.name, sent.message_id, error)

    def _on_request(self, connection: Connection, command: Command) -> None:
        if command.code == RequestCode.CHECK_TRANSACTION_STATE:
            self._checks.add(connection, command)
        else:
            super()._on_request(connection, command)
