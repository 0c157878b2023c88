"""Renew claims while their messages are being handled, however long that takes."""

import asyncio
from typing import Final, NamedTuple

from cometmq.client.background import start_task
from cometmq.client.idempotence.store import ClaimStore
from cometmq.cluster.claims import Mark
from cometmq.logs import get_logger
from cometmq.message import StoredMessage

RENEWALS_PER_LEASE: Final = 3
"""Two in a row may fail."""

_log = get_logger(__name__)


class ClaimedMessage(NamedTuple):
    """A claimed message and the mark of its claim."""

    message: StoredMessage
    mark: Mark


class Renewal:
    """Renews claims until it is stopped; nearly all handlers return before the first renewal.

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
