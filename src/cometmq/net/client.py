"""The connections of one client: one to each server, shared by all its requests."""

import asyncio
from collections.abc import Awaitable, Callable

from cometmq.errors import NetworkError
from cometmq.net.connection import CONNECT_TIMEOUT_MS, REQUEST_TIMEOUT_MS, Connection, refuse_request
from cometmq.net.tls.client import TLS
from cometmq.wire.acl import Credentials
from cometmq.wire.client_request import ClientRequest
from cometmq.wire.frame import Command


class Connections:
    """One shared connection per address, opened when it is first needed and again after a loss.

    Args:
        on_request: called with each request that a server sends.
        connect_timeout_ms: how long to wait for a server to accept.
        on_open: called with the address of each opened connection, also when it is opened again after a loss.
        credentials: sign all requests.
        tls: how to connect by TLS; None to connect plainly.

    Raises:
        SettingsError: a file of ``tls`` cannot be used.
    """

    def __init__(
        self,
        on_request: Callable[[Connection, Command], None] = refuse_request,
        connect_timeout_ms: int = CONNECT_TIMEOUT_MS,
        on_open: Callable[[str], None] = lambda _: None,
        credentials: Credentials | None = None,
        tls: TLS | None = None,
    ) -> None:
        if tls is not None:
            tls.context()  # an error that no retry mends
        self._on_request = on_request
        self._on_open = on_open
        self._connect_timeout_ms = connect_timeout_ms
        self._credentials = credentials
        self._tls = tls
        self._open: dict[str, Connection] = {}
        self._opening: dict[str, asyncio.Task[Connection]] = {}
        self._closed = False

    @property
    def is_closed(self) -> bool:
        """Whether the client is closed, so that no connection is opened any more."""
        return self._closed

    def request(
        self, address: str, command: ClientRequest, timeout_ms: int = REQUEST_TIMEOUT_MS
    ) -> Awaitable[Command]:
        """Send a request to ``address``; await the result at once for the response, whatever its code.

        Raises:
            SettingsError: ``address`` is not an address.
            NetworkError: there is no connection, or it was lost before the response.
            RequestTimeout: no response came within ``timeout_ms`` after the connection could take the
            request. ProtocolError: the command cannot be encoded.
        """
        if (connection := self.ready(address)) is None:
            return self._request_soon(address, command, timeout_ms)
        return connection.request(command, timeout_ms)

    def ready(self, address: str) -> Connection | None:
        """Return the connection to ``address`` if it is open and takes a request without a wait."""
        connection = self._open.get(address)
        if connection is None or connection.closed or connection.is_full:
            return None
        return connection

    async def oneway(self, address: str, command: ClientRequest) -> None:
        """Send a one-way request; wait only until the connection can take it. Raises like ``request``."""
        connection = await self.connect(address)
        await connection.drained()
        connection.oneway(command)

    async def connect(self, address: str) -> Connection:
        """Return the connection to ``address``, opened if necessary. Raises SettingsError or NetworkError."""
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
            # Others may wait for the same connection: cancelling one of them must not cancel the task.
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.cancelled():
                raise
            raise NetworkError(f"no connection to {address}: this client was closed") from None

    async def close(self) -> None:
        """Close all connections; no connection is opened any more."""
        self._closed = True
        opening = list(self._opening.values())
        for task in opening:
            task.cancel()
        await asyncio.gather(*opening, return_exceptions=True)
        await asyncio.gather(*(connection.close() for connection in self._open.values()))
        self._open.clear()

    async def _request_soon(self, address: str, command: ClientRequest, timeout_ms: int) -> Command:
        connection = await self.connect(address)
        await connection.drained()
        return await connection.request(command, timeout_ms)

    async def _connect(self, address: str) -> Connection:
        try:
            connection = await Connection.open(
                address, self._on_request, self._connect_timeout_ms, self._credentials, self._tls
            )
            self._open[address] = connection
            self._on_open(address)
            return connection
        finally:
            del self._opening[address]


def _retrieve_error(task: "asyncio.Task[Connection]") -> None:
    """Retrieve a task's exception, so that asyncio does not log it when nobody waits for it any more."""
    if not task.cancelled():
        task.exception()
