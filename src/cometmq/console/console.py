"""The console's server."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from typing import Final, Self

from cometmq.extras import require

require("console", "the console")

# ruff: noqa: E402  these come with the extra

from uvicorn import Config, Server

from cometmq.console.application import application
from cometmq.console.connections import BrowserConnection, WaitingConnections
from cometmq.console.observing import Observations, keep_observing, observing_cluster
from cometmq.console.rendering import environment
from cometmq.console.settings import ConsoleSettings
from cometmq.console.visit import Site
from cometmq.console.visitors import Visitors
from cometmq.console.workload import Workload
from cometmq.logs import get_logger
from cometmq.net.accepting import Acceptor, ConnectionCount
from cometmq.net.address import address_text
from cometmq.net.listening import listen

_log: Final = get_logger(__name__)
PORT: Final = 8090
BACKLOG: Final = 1_024
LIMITED_BY: Final = " (--connections-max, or what `ulimit -n` leaves beside files)"
STOP_S: Final = 3
"""How long, in seconds, a stop waits for requests under way."""


class Console:
    """Serves the console; as a context manager it starts and stops.

    Args:
        port: port to listen on; 0 for any free one.
    """

    def __init__(self, settings: ConsoleSettings, port: int = PORT) -> None:
        self._settings = settings
        self._wanted_port = port
        self._stack = AsyncExitStack()

    @property
    def address(self) -> str:
        """``host:port`` that it listens on."""
        return address_text(self._settings.host, self.port)

    async def __aenter__(self) -> Self:
        """Start to serve. Raises SettingsError if strangers could use it, or it cannot listen."""
        if insecure := self._settings.check():
            _log.warning("the console is insecure: %s", insecure)
        async with AsyncExitStack() as stack:
            visitors = await stack.enter_async_context(
                Visitors(self._settings, lambda: time.monotonic_ns() // 1_000_000)
            )
            workload = Workload(self._settings.exports_max)
            site = Site(self._settings, environment(), visitors, Observations(), workload)
            await self._observe(stack, site.observations)
            self._server = _QuietServer(
                Config(
                    application(site),
                    lifespan="off",
                    ws="none",
                    log_config=None,
                    access_log=False,
                    server_header=False,
                    timeout_graceful_shutdown=STOP_S,
                )
            )
            sockets = await listen("console", self._settings.host, self._wanted_port, BACKLOG)
            self.port: int = sockets[0].getsockname()[1]
            self._waiting = WaitingConnections(self._settings.limits)
            self._acceptor = Acceptor(
                sockets,
                partial(BrowserConnection, self._server, self._waiting),
                ConnectionCount(self._settings.limits.connections_max, LIMITED_BY),
                crowd=self._waiting.crowd,
            )
            self._serving = asyncio.create_task(self._server.serve([]), name="console")
            stack.push_async_callback(self._stop)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop."""
        await self._stack.aclose()

    async def _observe(self, stack: AsyncExitStack, found: Observations) -> None:
        """Observe the cluster until the stack is left."""
        cluster = observing_cluster(self._settings)
        if cluster is not None:
            await stack.enter_async_context(cluster)
            observing = asyncio.create_task(keep_observing(cluster, found, _now_ms), name="observing")
            stack.push_async_callback(_cancelled, observing)

    async def _stop(self) -> None:
        self._acceptor.close()
        await self._acceptor.wait_closed()
        self._server.should_exit = True
        await self._serving
        self._waiting.close()


def _now_ms() -> int:
    return int(time.time() * 1000)


async def _cancelled(task: asyncio.Task[None]) -> None:
    """Cancel a task, and wait for its end."""
    task.cancel()
    await asyncio.wait([task])


class _QuietServer(Server):
    """A server that leaves signals to the command that runs it; its connections are accepted for it."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do nothing."""
        yield
