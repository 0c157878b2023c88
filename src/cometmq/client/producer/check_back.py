"""Checks: brokers ask what became of half messages whose end they were not told.

A broker asks any producer of the group, perhaps one that was started since. What it is not answered, as
UNKNOWN or because too much waits here, it asks again.

Source: RocketMQ ``client/impl/producer/DefaultMQProducerImpl.java`` (checkTransactionState).
"""

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

from cometmq.client.calling import call
from cometmq.client.producer.transaction import Check, TransactionState, end_request, state_of
from cometmq.errors import CometMQError
from cometmq.format import properties
from cometmq.format.record import decode as decode_record
from cometmq.format.stored import stored_message
from cometmq.message import StoredMessage
from cometmq.net.connection import Connection
from cometmq.wire.frame import Command
from cometmq.wire.headers import CheckTransactionStateHeader, EndTransactionHeader, parse

WAITING_MAX: Final = 2_000

_log = logging.getLogger(__name__)


class Waiting(NamedTuple):
    """A check, and the address of the broker that wants to know."""

    address: str
    header: CheckTransactionStateHeader
    message: StoredMessage


class Checks:
    """Answers checks, one after the other.

    Args:
        check: the application's; a plain function runs in a thread of its own.
        tell: sends a one-way request to an address. May raise CometMQError.
    """

    def __init__(self, group: str, check: Check, tell: Callable[[str, Command], Awaitable[None]]) -> None:
        self._group = group
        self._check = check
        self._is_async = inspect.iscoroutinefunction(check)
        self._tell = tell
        self._pool = ThreadPoolExecutor(1, "cometmq-check")
        self._waiting: deque[Waiting] = deque()
        self._working: asyncio.Task[None] | None = None
        self._is_closed = False

    def take(self, connection: Connection, command: Command) -> None:
        """Take a check, to be answered soon. Raises FormatError if it or its message cannot be read."""
        if self._is_closed or len(self._waiting) >= WAITING_MAX:
            why = "the producer is being closed" if self._is_closed else f"{WAITING_MAX} wait already"
            _log.warning("a check of %s is dropped, it will come again: %s", connection, why)
            return
        header = parse(CheckTransactionStateHeader, command.ext_fields)
        message = stored_message(decode_record(command.body))
        group = message.properties.get(properties.PRODUCER_GROUP)
        if group != self._group:
            _log.warning("a check of %s is for group %r, this is %r", connection, group, self._group)
            return
        self._waiting.append(Waiting(connection.address, header, message))
        if self._working is None or self._working.done():
            self._working = asyncio.create_task(self._work(), name="checks")

    async def close(self, timeout_s: float) -> None:
        """Answer no more; a check that is under way has so long to end before it is cancelled."""
        self._is_closed = True
        self._waiting.clear()
        working, self._working = self._working, None
        try:
            if working is not None:
                await asyncio.wait((working,), timeout=timeout_s)
        finally:  # also if this was cancelled, as by a time limit
            self._pool.shutdown(wait=False)
            if working is not None and not working.done():
                _log.warning("a check that went on after the close is cancelled: the broker will ask again")
                working.cancel()
                await asyncio.wait((working,))

    async def _work(self) -> None:
        while self._waiting:
            await self._answer(self._waiting.popleft())

    async def _answer(self, asked: Waiting) -> None:
        state, failure = TransactionState.UNKNOWN, None
        try:
            state = state_of(await call(self._check, asked.message, self._pool, is_async=self._is_async))
        except Exception as error:  # noqa: BLE001 a check is not ours: whatever it raises, nothing is known
            failure = error
            message_id = asked.message.message_id
            _log.warning("a check failed, the broker will ask again: %s", message_id, exc_info=True)
        try:
            await self._tell(asked.address, end_request(self._end(asked, state), failure))
        except CometMQError as error:
            _log.warning("a check's answer got lost, the broker will ask again: %s", error)

    def _end(self, asked: Waiting, state: TransactionState) -> EndTransactionHeader:
        return EndTransactionHeader(
            producer_group=self._group,
            half_offset=asked.header.half_offset,
            physical_offset=asked.header.physical_offset,
            decision=state.value,
            message_id=asked.message.message_id,
            from_check=True,
            transaction_id=asked.header.transaction_id,
            topic=asked.header.topic,
        )
