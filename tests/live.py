"""A live name server and broker for tests: real sockets, any store.

``serving`` runs them in the test's own event loop. ``in_thread`` gives them a loop in a thread, for tests of
code that runs a loop itself, such as the command line's.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from cometmq.broker.broker import Broker
from cometmq.broker.settings import BrokerSettings
from cometmq.io.clock import Clock
from cometmq.io.files import FileLayer
from cometmq.namesrv.access import FOR_ALL, NameServerAccess
from cometmq.namesrv.name_server import NameServer
from cometmq.net.tls.settings import TlsSettings
from cometmq.store.settings import StoreSettings

BROKER = "broker-a"
SMALL: dict[str, Any] = {
    "mapped_file_size_commit_log": 1 << 20,
    "mapped_file_size_consume_queue": 20 * 1000,
    "max_hash_slot_num": 100,
    "max_index_num": 1000,
}
"""Files that cost a test nothing; a body of 4 MiB needs a larger CommitLog file."""


class Live(NamedTuple):
    """Where they are reached: ``host:port``."""

    name_server: str
    broker: str


@asynccontextmanager
async def serving(
    root: Path,
    *,
    store: dict[str, Any] | None = None,
    files: FileLayer | None = None,
    clock: Clock | None = None,
    namesrv_port: int = 0,
    namesrv_kv: Path | None = None,
    access: NameServerAccess = FOR_ALL,
    **settings: Any,
) -> AsyncIterator[Live]:
    """Run a name server and a broker over ``root``; the arguments are settings by their names in code.

    Those of TLS are the name server's, too; ``access`` says who may use that.
    """
    tls = TlsSettings(**{name: value for name, value in settings.items() if name.startswith("tls_")})
    name_server = NameServer(
        port=namesrv_port, clock=clock, kv_config_path=namesrv_kv, access=access, tls=tls
    )
    await name_server.start()
    try:
        own: dict[str, Any] = {
            "broker_name": BROKER,
            "listen_port": 0,
            "namesrv_addr": name_server.address,
            "store_path_root_dir": str(root),
        }
        broker = Broker(
            BrokerSettings.of(**own | settings),
            StoreSettings(**SMALL | (store or {})),
            clock=clock,
            files=files,
            load_kernels=False,
        )
        await broker.start()
        try:
            yield Live(name_server.address, broker.address)
        finally:
            await broker.stop()
    finally:
        await name_server.stop()


@contextmanager
def in_thread(root: Path, **options: Any) -> Iterator[Live]:
    """Run the same in a thread of its own."""
    started: Future[Any] = Future()

    async def main() -> None:
        stopping = asyncio.Event()
        stop = partial(asyncio.get_running_loop().call_soon_threadsafe, stopping.set)
        async with serving(root, **options) as live:
            started.set_result((live, stop))
            await stopping.wait()

    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(lambda: asyncio.run(main()))
        wait((started, running), return_when=FIRST_COMPLETED)
        if running.done():
            running.result()
        live, stop = started.result()
        try:
            yield live
        finally:
            stop()
            running.result()
