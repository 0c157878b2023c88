"""The connections of one client: one to each server, shared by all who ask it."""

import asyncio
from collections.abc import Awaitable, Callable

from cometmq.errors import NetworkError
from cometmq.net.connection import CONNECT_TIMEOUT_MS, REQUEST_TIMEOUT_MS, Connection, refuse_request
from cometmq.wire.frame import Command
from cometmq.wire.send_request import SendRequest


class Connections:
    """One shared connection per address, opened when it is first needed and again after a loss.

    Args:
        on_request: takes what any server asks or tells.
        connect_timeout_ms: how long to wait for a server to accept.
        on_open: told the address of each connection that was opened, also of one that was lost before.
    """

    def __init__(
        self,
        on_request: Callable[[Connection, Command], None] = refuse_request,
        connect_timeout_ms: int = CONNECT_TIMEOUT_MS,
        on_open: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._on_request = on_request
        self._on_open = on_open
        self._connect_timeout_ms = connect_timeout_ms
        self._open: dict[str, Connection] = {}
        self._opening: dict[str, asyncio.Task[Connection]] = {}
        self._closed = False

    @property
    def is_closed(self) -> bool:
        """Whether no connection is opened any more."""
        return self._closed

    def request(
        self, address: str, command: Command | SendRequest, timeout_ms: int = REQUEST_TIMEOUT_MS
    ) -> Awaitable[Command]:
        """Ask the server at ``address``; to be awaited at once, for its answer, whatever its code.

        Raises:
            SettingsError: ``address`` is no address.
            NetworkError: no connection, or it was lost before the answer.
            RequestTimeout: no answer within ``timeout_ms`` from when there was a connection with room.
            ProtocolError: the command cannot be encoded.
        """
        connection = self._open.get(address)
        if connection is None or connection.closed or connection.is_full:
            return self._request_soon(address, command, timeout_ms)
        return connection.request(command, timeout_ms)

    async def oneway(self, address: str, command: Command | SendRequest) -> None:
        """Tell the server at ``address``; waits only for a connection with room. Raises like ``request``."""
        connection = await self.connect(address)
        await connection.drained()
        connection.oneway(command)

    async def connect(self, address: str) -> Connection:
        """Give the connection to ``address``. Raises SettingsError or NetworkError."""
        connection = self._open.get(address)
        if connection is not None and not connection.closed:
            return connection
        if self._closed:
            raise NetworkError(f"no connection to {address}: this client is closed")
        task = self._opening.get(address)
        if task is None:
            task = asyncio.create_task(self._connect(address))
            task.add_done_callback(_retrieve_error)
            self._opening[address] = task
        try:
            # Others may wait for the same connection: that one of them gives up is not their concern.
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.cancelled():
                raise
            raise NetworkError(f"no connection to {address}: this client was closed") from None

    async def close(self) -> None:
        """Close all connections; none is opened any more."""
        self._closed = True
        opening = list(self._opening.values())
        for task in opening:
            task.cancel()
        await asyncio.gather(*opening, return_exceptions=True)
        await asyncio.gather(*(connection.close() for connection in self._open.values()))
        self._open.clear()

    async def _request_soon(self, address: str, command: Command | SendRequest, timeout_ms: int) -> Command:
        connection = await self.connect(address)
        await connection.drained()
        return await connection.request(command, timeout_ms)

    async def _connect(self, address: str) -> Connection:
        try:
            connection = await Connection.open(address, self._on_request, self._connect_timeout_ms)
            self._open[address] = connection
            self._on_open(address)
            return connection
        finally:
            del self._opening[address]


def _retrieve_error(task: "asyncio.Task[Connection]") -> None:
    """Keep asyncio from logging a failure that nobody waits for any more."""
    if not task.cancelled():
        task.exception()
