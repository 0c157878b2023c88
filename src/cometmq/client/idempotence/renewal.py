"""Renewing claims while their messages are being handled, however long that takes."""

import asyncio
import logging
from typing import Final, NamedTuple

from cometmq.client.idempotence.store import ClaimStore
from cometmq.cluster.claims import Mark
from cometmq.message import StoredMessage

RENEWALS_PER_LEASE: Final = 3
"""So two in a row may fail."""

_log = logging.getLogger(__name__)


class Taken(NamedTuple):
    """A message that was claimed."""

    message: StoredMessage
    mark: Mark


class Renewal:
    """Renews claims until it is stopped; nearly all handlers return before the first time.

    Args:
        taken: the claims by key; their marks are kept as the store has them.
    """

    def __init__(self, store: ClaimStore, lease_ms: int, taken: dict[str, Taken]) -> None:
        self._store = store
        self._lease_ms = lease_ms
        self._taken = taken
        self._task: asyncio.Task[None] | None = None
        self._stopped = False
        self._wait()

    async def stop(self) -> None:
        """Renew no more; wait for what is being written."""
        self._stopped = True
        self._timer.cancel()
        if self._task is not None:
            await asyncio.wait((self._task,))

    def _wait(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._lease_ms / 1000 / RENEWALS_PER_LEASE, self._begin)

    def _begin(self) -> None:
        self._task = asyncio.create_task(self._renew())

    async def _renew(self) -> None:
        for key, one in self._taken.items():
            try:
                renewed = await self._store.renew(key, one.mark, self._lease_ms)
            except Exception:  # noqa: BLE001 a store may be anybody's, and the next try may succeed
                _log.warning("the claim of %s could not be renewed", key, exc_info=True)
                continue
            if renewed is not None:
                self._taken[key] = one._replace(mark=renewed)
            else:
                _log.warning("the claim of %s was lost: its lease ended before it was renewed", key)
        if not self._stopped:
            self._wait()
