"""Handle a message once, although it is delivered more than once.

Before a message is handled its key is claimed, afterwards it is marked as done. A later duplicate finds the
mark and is passed over; a concurrent one is put off. After a crash between the end of a handler and its mark
the message is handled again. A handler that writes to the same SQLite file can rule that out by
``transaction``, which commits its effect and the mark together.
"""

import asyncio
from bisect import bisect_left
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from pathlib import Path
from sqlite3 import Connection
from typing import Final, NamedTuple, Self

from cometmq.arguments import ArgumentKind, check, number
from cometmq.client.background import start_task
from cometmq.client.handling.outcome import PutOff
from cometmq.client.idempotence.key import IdempotentBy, key_by
from cometmq.client.idempotence.sqlite import SqliteClaims
from cometmq.client.idempotence.store import ClaimStore
from cometmq.cluster.claims import ClaimState, Mark
from cometmq.errors import SettingsError
from cometmq.format.delay_level import DelayLevels
from cometmq.io.clock import Clock
from cometmq.logs import get_logger
from cometmq.message import StoredMessage

LEASE_MS: Final = 60_000
KEEP_MS: Final = 7 * 24 * 3_600_000

_STORE: Final = ArgumentKind(
    "the path of a file, or a ClaimStore",
    lambda value: isinstance(value, Path | str) or hasattr(value, "claim"),
)
_DELAYS_MS: Final = DelayLevels.parse().delays_ms

RENEWALS_PER_LEASE: Final = 3
"""Two in a row may fail."""

_log = get_logger(__name__)


class Deduplicator:
    """Records which messages are done or being handled.

    Args:
        store: the path of an SQLite file, or a store.
        lease_ms: lease of a claim, renewed while the handler runs; after a crash its message waits so long.
        keep_ms: how long the mark of a handled message is kept.
        clock: of the store that is created for a path; another store has its own.

    Raises:
        SettingsError: a time is not above 0.
        sqlite3.Error: the file cannot be used.
    """

    def __init__(
        self,
        store: ClaimStore | Path | str,
        *,
        lease_ms: int = LEASE_MS,
        keep_ms: int = KEEP_MS,
        clock: Clock | None = None,
    ) -> None:
        check(number(), lease_ms=lease_ms, keep_ms=keep_ms)
        check(_STORE, store=store)
        if min(lease_ms, keep_ms) <= 0:
            raise SettingsError(f"lease_ms {lease_ms}, keep_ms {keep_ms}: both must be above 0")
        self.lease_ms = lease_ms
        self.keep_ms = keep_ms
        self.store = SqliteClaims(store, clock=clock) if isinstance(store, Path | str) else store
        self._handled_keys: dict[int, str] = {}
        """The keys of the messages that are being handled, by the messages' identity."""

    def once(self, scope: str, idempotent_by: IdempotentBy, *, ordered: bool = False) -> "Once":
        """Return the handling of a scope, such as a group's topic, that handles each message once."""
        return Once(self, scope, key_by(idempotent_by), ordered)

    def transaction(self, message: StoredMessage) -> AbstractContextManager[Connection]:
        """Begin a transaction of the SQLite file that also marks ``message`` as done.

        It is committed at the end of the ``with`` block, and rolled back if the block raises. ``message``
        must be the object that the handler got. Call it in a thread: it waits for other transactions.

        Raises:
            SettingsError: the message is not being handled, the store is not SQLite, or the caller runs in an
                event loop.
            PutOff: another consumer has handled the message after a lost lease; do not catch it.
            sqlite3.Error: the file cannot be used.
        """
        if not isinstance(self.store, SqliteClaims):
            raise SettingsError("only an SQLite file holds effects and marks together: Deduplicator('a.db')")
        if (key := self._handled_keys.get(id(message))) is None:
            raise SettingsError(f"message {message.message_id} is not being handled with idempotent_by")
        if _is_in_loop():
            raise SettingsError(
                "a transaction would hold up the event loop: use a plain handler or to_thread"
            )
        return self.store.transaction(key, self.keep_ms)

    def close(self) -> None:
        """Close the store, after the consumers have stopped."""
        self.store.close()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the store."""
        self.close()

    def begin_handling(self, message: StoredMessage, key: str) -> None:
        """Register a message that is being handled, so that ``transaction`` finds its key."""
        self._handled_keys[id(message)] = key

    def end_handling(self, message: StoredMessage) -> None:
        """Unregister a message after its handler has ended."""
        del self._handled_keys[id(message)]


class ClaimedMessage(NamedTuple):
    """A claimed message and the mark of its claim."""

    message: StoredMessage
    mark: Mark


class Renewal:
    """Renews claims while their messages are handled; nearly all handlers return before the first renewal.

    Args:
        claimed: the claims by key; their marks are replaced by the renewed ones.
    """

    def __init__(self, store: ClaimStore, lease_ms: int, claimed: dict[str, ClaimedMessage]) -> None:
        self._store = store
        self._lease_ms = lease_ms
        self._claimed = claimed
        self._task: asyncio.Task[None] | None = None
        self._stopped = False
        self._schedule()

    async def stop(self) -> None:
        """Stop renewing, and wait for a renewal that is being written."""
        self._stopped = True
        self._timer.cancel()
        if self._task is not None:
            await asyncio.wait((self._task,))

    def _schedule(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._lease_ms / 1000 / RENEWALS_PER_LEASE, self._begin)

    def _begin(self) -> None:
        self._task = start_task(self._renew(), "renewal of claims")

    async def _renew(self) -> None:
        for key, one in self._claimed.items():
            try:
                renewed = await self._store.renew(key, one.mark, self._lease_ms)
            except Exception:  # noqa: BLE001 the store may be the application's; the next renewal may succeed
                _log.warning("the claim of %s could not be renewed", key, exc_info=True)
                continue
            if renewed is not None:
                self._claimed[key] = one._replace(mark=renewed)
            else:
                _log.warning("the claim of %s was lost: its lease ended before it was renewed", key)
        if not self._stopped:
            self._schedule()


class Once:
    """Handles each message of a scope once.

    Args:
        ordered: whether later messages must wait for one that is being handled elsewhere.
    """

    def __init__(
        self, of: Deduplicator, scope: str, key_of: Callable[[StoredMessage], str], ordered: bool
    ) -> None:
        self._of = of
        self._scope = scope
        self._key_of = key_of
        self._ordered = ordered

    async def handle(
        self, messages: list[StoredMessage], call: Callable[[list[StoredMessage]], Awaitable[None]]
    ) -> None:
        """Call a handler with the messages that are neither done nor being handled elsewhere.

        Their claims are renewed while it runs. A cancelled handler keeps its claims until their leases end:
        its thread, if it has one, runs on.

        Raises:
            PutOff: some are being handled elsewhere.
            Exception: what the handler or the store raises; then all claims are released.
        """
        claimed: dict[str, ClaimedMessage] = {}
        try:
            wait_ms = await self._claim(messages, claimed)
            if claimed:
                await self._call(call, claimed)
        except Exception:
            for key, one in claimed.items():
                await self._of.store.release(key, one.mark)
            raise
        finally:
            for one in claimed.values():
                self._of.end_handling(one.message)
        for key in claimed:
            await self._of.store.finish(key, self._of.keep_ms)
        if wait_ms > 0:
            raise PutOff(delay_level=_level(wait_ms), suspend_ms=wait_ms)

    async def _call(
        self, call: Callable[[list[StoredMessage]], Awaitable[None]], claimed: dict[str, ClaimedMessage]
    ) -> None:
        renewal = Renewal(self._of.store, self._of.lease_ms, claimed)
        try:
            await call([one.message for one in claimed.values()])
        finally:
            await renewal.stop()

    async def _claim(self, messages: list[StoredMessage], claimed: dict[str, ClaimedMessage]) -> int:
        """Claim messages into ``claimed``, by key; return the longest lease of another claimant in ms."""
        wait_ms = 0
        for message in messages:
            key = f"{self._scope}/{self._key_of(message)}"
            if key in claimed:
                continue  # a duplicate in the batch: it succeeds or fails with the first
            ours, mark, left_ms = await self._of.store.claim(key, self._of.lease_ms)
            if ours:
                self._of.begin_handling(message, key)
                claimed[key] = ClaimedMessage(message, mark)
            elif mark.state is ClaimState.IN_PROGRESS:
                wait_ms = max(wait_ms, left_ms)
                if self._ordered:
                    break
        return wait_ms


def _level(wait_ms: int) -> int:
    """Return the first delay level that is not shorter, so that waiting costs only one retry."""
    return min(bisect_left(_DELAYS_MS, wait_ms) + 1, len(_DELAYS_MS))


def _is_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
