"""Handling a message once, although it comes more than once.

Before a message is handled its key is claimed, afterwards it is marked as done. A duplicate that comes later
finds the mark and is passed over; one that comes at the same time is put off. A crash between the end of a
handler and its mark lets the message be handled again. A handler that writes to the same SQLite file can rule
that out, by ``transaction``, which keeps the effect and the mark together.
"""

import asyncio
from bisect import bisect_left
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from pathlib import Path
from sqlite3 import Connection
from typing import Final, Self

from cometmq.arguments import ArgumentKind, check, number
from cometmq.client.consumer.outcome import PutOff
from cometmq.client.idempotence.key import IdempotentBy, key_by
from cometmq.client.idempotence.renewal import Renewal, Taken
from cometmq.client.idempotence.sqlite import SqliteClaims
from cometmq.client.idempotence.store import ClaimStore
from cometmq.cluster.claims import ClaimState
from cometmq.errors import SettingsError
from cometmq.format.delay_level import DelayLevels
from cometmq.io.clock import Clock
from cometmq.message import StoredMessage

LEASE_MS: Final = 60_000
KEEP_MS: Final = 7 * 24 * 3_600_000

_STORE: Final = ArgumentKind(
    "the path of a file, or a ClaimStore",
    lambda value: isinstance(value, Path | str) or hasattr(value, "claim"),
)
_DELAYS_MS: Final = DelayLevels.parse().delays_ms


class Deduplicator:
    """Remembers which messages are handled, or are being handled.

    Args:
        store: where: the path of an SQLite file, or a store.
        lease_ms: for how long a message that is being handled is left to whoever began. It is renewed while
            the handler runs; after a crash the message waits for so long.
        keep_ms: how long it is remembered that a message was handled.
        clock: gives the time to the store that is made of a path; another store has its own.

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
        self._in_hand: dict[int, str] = {}
        """The keys of the messages that handlers have now, by the messages' identity."""

    def once(self, scope: str, idempotent_by: IdempotentBy, *, ordered: bool = False) -> "Once":
        """Give what handles each message of a scope, such as a group's share of a topic, once."""
        return Once(self, scope, key_by(idempotent_by), ordered)

    def transaction(self, message: StoredMessage) -> AbstractContextManager[Connection]:
        """Give a transaction of the SQLite file which also marks ``message``, that is being handled, as done.

        It is kept at the end of the block, and dropped if the block raises. The message is the one that the
        handler got. To be used in a thread: it waits for the transactions of others.

        Raises:
            SettingsError: the message is not being handled, the store is not SQLite, or this is an event
                loop.
            PutOff: somebody else has handled the message meanwhile, as the lease was lost: let it pass.
            sqlite3.Error: the file cannot be used.
        """
        if not isinstance(self.store, SqliteClaims):
            raise SettingsError("only an SQLite file holds effects and marks together: Deduplicator('a.db')")
        if (key := self._in_hand.get(id(message))) is None:
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
        """Give itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def take(self, message: StoredMessage, key: str) -> None:
        """Note that a handler has a message."""
        self._in_hand[id(message)] = key

    def drop(self, message: StoredMessage) -> None:
        """Note that it has it no more."""
        del self._in_hand[id(message)]


class Once:
    """Handles each message of a scope once.

    Args:
        ordered: whether nothing may be handled before a message that is being handled elsewhere.
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
        """Call a handler with those of the messages that nobody handled.

        Their claims are renewed while it runs. A cancelled one keeps its claims until their leases end: its
        thread, if it has one, runs on.

        Raises:
            PutOff: some are being handled elsewhere.
            Exception: what the handler, or the store, raises; then all that was claimed is given back.
        """
        taken: dict[str, Taken] = {}
        try:
            wait_ms = await self._claim(messages, taken)
            if taken:
                await self._call(call, taken)
        except Exception:
            for key, one in taken.items():
                await self._of.store.release(key, one.mark)
            raise
        finally:
            for one in taken.values():
                self._of.drop(one.message)
        for key in taken:
            await self._of.store.finish(key, self._of.keep_ms)
        if wait_ms > 0:
            raise PutOff(delay_level=_level(wait_ms), suspend_ms=wait_ms)

    async def _call(
        self, call: Callable[[list[StoredMessage]], Awaitable[None]], taken: dict[str, Taken]
    ) -> None:
        renewal = Renewal(self._of.store, self._of.lease_ms, taken)
        try:
            await call([one.message for one in taken.values()])
        finally:
            await renewal.stop()

    async def _claim(self, messages: list[StoredMessage], taken: dict[str, Taken]) -> int:
        """Claim messages, into ``taken`` by key; give for how long one of them is somebody else's, ms."""
        wait_ms = 0
        for message in messages:
            key = f"{self._scope}/{self._key_of(message)}"
            if key in taken:
                continue  # a duplicate in one batch: it succeeds or fails with the first
            ours, mark, left_ms = await self._of.store.claim(key, self._of.lease_ms)
            if ours:
                self._of.take(message, key)
                taken[key] = Taken(message, mark)
            elif mark.state is ClaimState.IN_PROGRESS:
                wait_ms = max(wait_ms, left_ms)
                if self._ordered:
                    break
        return wait_ms


def _level(wait_ms: int) -> int:
    """Give the first delay level that is not shorter: so waiting costs one try, not many."""
    return min(bisect_left(_DELAYS_MS, wait_ms) + 1, len(_DELAYS_MS))


def _is_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
