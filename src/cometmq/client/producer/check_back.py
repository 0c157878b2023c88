"""Check-back: brokers ask for the states of transactions that were neither committed nor rolled back.

A broker asks any producer of the group, perhaps one that was started later. It asks again after UNKNOWN and
after no response, as when too many checks wait here.

Source: RocketMQ ``client/impl/producer/DefaultMQProducerImpl.java`` (checkTransactionState).
"""

import asyncio
import inspect
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

from cometmq.client.background import start_task
from cometmq.client.calling import call, calling_tasks
from cometmq.client.producer.transaction import Check, TransactionState, checked_state, end_request
from cometmq.errors import CometMQError
from cometmq.format import properties
from cometmq.format.record import decode as decode_record
from cometmq.format.stored import stored_message
from cometmq.logs import get_logger
from cometmq.message import StoredMessage
from cometmq.net.connection import Connection
from cometmq.wire.frame import Command
from cometmq.wire.headers import CheckTransactionStateHeader, EndTransactionHeader, parse

WAITING_MAX: Final = 2_000

_log = get_logger(__name__)


class PendingCheck(NamedTuple):
    """A check that waits, and the address of the broker that asks."""

    address: str
    header: CheckTransactionStateHeader
    message: StoredMessage


class Checks:
    """Answers the checks of brokers, one after the other.

    Args:
        check: the application's function; a plain one runs in a thread of its own.
        oneway: sends a one-way request to an address. May raise CometMQError.
    """

    def __init__(self, group: str, check: Check, oneway: Callable[[str, Command], Awaitable[None]]) -> None:
        self._group = group
        self._check = check
        self._is_async = inspect.iscoroutinefunction(check)
        self._oneway = oneway
        self._pool = ThreadPoolExecutor(1, "cometmq-check")
        self._waiting: deque[PendingCheck] = deque()
        self._working: asyncio.Task[None] | None = None
        self._is_closed = False

    def add(self, connection: Connection, command: Command) -> None:
        """Queue a check. Raises FormatError if it or its message cannot be decoded."""
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
        self._waiting.append(PendingCheck(connection.address, header, message))
        if self._working is None or self._working.done():
            self._working = start_task(self._work(), "work on checks")

    async def close(self, timeout_s: float) -> None:
        """Drop waiting checks, and cancel the running one if it does not end within ``timeout_s``.

        A check that calls this is not waited for: the broker will ask again.
        """
        self._is_closed = True
        self._waiting.clear()
        working, self._working = self._working, None
        if working in calling_tasks():
            working = None
        try:
            if working is not None:
                await asyncio.wait((working,), timeout=timeout_s)
        finally:  # also if this is cancelled
            self._pool.shutdown(wait=False)
            if working is not None and not working.done():
                _log.warning("a check that ran on after the close is cancelled: the broker will ask again")
                working.cancel()
                await asyncio.wait((working,))

    async def _work(self) -> None:
        while self._waiting:
            await self._answer(self._waiting.popleft())

    async def _answer(self, pending: PendingCheck) -> None:
        state, failure = TransactionState.UNKNOWN, None
        try:
            state = checked_state(
                await call(self._check, pending.message, self._pool, is_async=self._is_async)
            )
        except Exception as error:  # noqa: BLE001 the application's function may raise anything
            failure = error
            message_id = pending.message.message_id
            _log.warning("a check failed, the broker will ask again: %s", message_id, exc_info=True)
        try:
            await self._oneway(pending.address, end_request(self._end_header(pending, state), failure))
        except CometMQError as error:
            _log.warning("a check's response was not sent, the broker will ask again: %s", error)

    def _end_header(self, pending: PendingCheck, state: TransactionState) -> EndTransactionHeader:
        return EndTransactionHeader(
            producer_group=self._group,
            half_offset=pending.header.half_offset,
            physical_offset=pending.header.physical_offset,
            decision=state.value,
            message_id=pending.message.message_id,
            from_check=True,
            transaction_id=pending.header.transaction_id,
            topic=pending.header.topic,
        )
