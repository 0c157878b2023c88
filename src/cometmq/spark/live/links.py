"""Reuse connections and routes from one task of a Spark worker to the next, and from plan to plan.

Theory of operation. Spark's Python workers run many tasks (``spark.python.worker.reuse``). Without this each
task would connect to the name server and the brokers, and request routes. A task acquires the worker's link
to its cluster, or opens one, and releases it. A timer closes a link that was not acquired for ``IDLE_S``,
well before brokers close silent connections. A broker's restart or a changed route shows in the first
request, which is then sent again (``retries``).

Only Spark's workers keep links: an application's own process closes them at once. A process that is forked
from a worker does not touch its links, as their sockets belong to the parent.
"""

import asyncio
import os
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from cometmq.client.routes import Routes
from cometmq.net.client import Connections
from cometmq.spark.live.access import ClusterAccess
from cometmq.spark.worker import is_worker

T = TypeVar("T")

IDLE_S: Final = 60.0
"""How long an unused link stays open. Spark ends idle workers after as long."""
LOOP_TURNS: Final = 3
"""Turns of its loop in which a link processes what was closed while it was unused."""


class Link:
    """An event loop with connections and routes to the servers of one cluster, for one user at a time."""

    def __init__(self, cluster: ClusterAccess) -> None:
        self.cluster = cluster
        self._runner = asyncio.Runner()
        self.connections, self.routes = self.run(self._open())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end."""
        return self._runner.get_loop().run_until_complete(work)  # Runner.run formats what it returns

    def process_closed(self) -> None:
        """Process the connections that servers have closed meanwhile."""
        for _ in range(LOOP_TURNS):
            self.run(asyncio.sleep(0))

    def close(self) -> None:
        """Close the connections and the loop."""
        self.run(self.connections.close())
        self._runner.close()

    async def _open(self) -> tuple[Connections, Routes]:
        connections = Connections(credentials=self.cluster.credentials, tls=self.cluster.tls)
        return connections, Routes(connections, self.cluster.name_servers)


class Links:
    """The idle links of this process, at most one for each cluster."""

    def __init__(self, idle_s: float = IDLE_S) -> None:
        self._idle_s = idle_s
        self._lock = threading.Lock()
        self._idle: dict[ClusterAccess, tuple[Link, threading.Timer]] = {}
        self._left: list[object] = []  # of the process that this one was forked from: never touched again

    def acquire(self, cluster: ClusterAccess) -> Link:
        """Return a link to a cluster, for the caller alone until ``release``."""
        with self._lock:
            link, timer = self._idle.pop(cluster, (None, None))
        if link is None or timer is None:
            return Link(cluster)
        timer.cancel()
        link.process_closed()
        return link

    def release(self, link: Link) -> None:
        """Keep a link for the next user if this is a Spark worker, else close it."""
        timer = threading.Timer(self._idle_s, self._close_idle, (link,))
        timer.daemon = True
        with self._lock:
            is_kept = is_worker() and link.cluster not in self._idle
            if is_kept:
                self._idle[link.cluster] = link, timer
                timer.start()
        if not is_kept:
            link.close()

    def close_all(self) -> None:
        """Close the idle links."""
        for link, _ in list(self._idle.values()):
            self._close_idle(link)

    def reset(self) -> None:
        """Start without links, in a process that was forked."""
        self._left += self._idle.values()
        self._lock = threading.Lock()
        self._idle = {}

    def _close_idle(self, link: Link) -> None:
        with self._lock:
            found, timer = self._idle.get(link.cluster, (None, None))
            if found is not link or timer is None:
                return  # it was acquired in this moment
            del self._idle[link.cluster]
        timer.cancel()
        link.close()


LINKS: Final = Links()
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=LINKS.reset)


@contextmanager
def linked(cluster: ClusterAccess) -> Iterator[Link]:
    """Acquire a link for the block, and release it."""
    link = LINKS.acquire(cluster)
    try:
        yield link
    finally:
        LINKS.release(link)
