"""``cometmq dev``, ``namesrv`` and ``broker``: run servers until they are asked to stop."""

import asyncio
import logging
import resource
import signal
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import click

from cometmq.errors import SettingsError
from cometmq.net.address import address_text

BROKER_PORT = 10911
NAME_SERVER_PORT = 9876
LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"

host_option = click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
config_option = click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Settings: TOML, or RocketMQ's own broker.conf.",
)


@click.command()
@host_option
@click.option("--port", type=click.IntRange(0, 65535), default=BROKER_PORT, show_default=True)
@click.option("--namesrv-port", type=click.IntRange(0, 65535), default=NAME_SERVER_PORT, show_default=True)
@click.option(
    "--store",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("cometmq-data"),
    show_default=True,
)
@config_option
def dev(host: str, port: int, namesrv_port: int, store: Path, config: Path | None) -> None:
    """Run a name server and a broker in one process, for a laptop or a test."""
    _run(_dev(host, port, namesrv_port, store, config))


@click.command()
@host_option
@click.option("--port", type=click.IntRange(0, 65535), default=NAME_SERVER_PORT, show_default=True)
def namesrv(host: str, port: int) -> None:
    """Run a name server."""
    _run(_namesrv(host, port))


@click.command()
@config_option
@click.option("--namesrv", help="Name servers to register with: host:port;host:port.")
@click.option("--host", help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on.")
@click.option("--store", type=click.Path(path_type=Path, file_okay=False), help="Store directory.")
def broker(
    config: Path | None, namesrv: str | None, host: str | None, port: int | None, store: Path | None
) -> None:
    """Run a broker. What is given here overrides FILE."""
    given = {"namesrvAddr": namesrv, "bindAddress": host, "listenPort": port, "storePathRootDir": store}
    _run(_broker(config, {name: value for name, value in given.items() if value is not None}))


async def _dev(host: str, port: int, namesrv_port: int, store: Path, config: Path | None) -> None:
    from cometmq.broker.broker import Broker  # noqa: PLC0415 - the help must not wait for the broker's imports
    from cometmq.broker.settings import load  # noqa: PLC0415 - as above
    from cometmq.namesrv.name_server import NameServer  # noqa: PLC0415 - as above

    name_server = NameServer(host, namesrv_port)
    await name_server.start()
    try:
        settings = load(
            config,
            {
                "namesrvAddr": name_server.address,
                "bindAddress": host,
                "listenPort": port,
                "storePathRootDir": str(store),
            },
        )
        server = Broker(settings.broker, settings.store)
        await server.start()
        try:
            await _ready(f"broker {server.address}, name server {name_server.address}, store {store}")
        finally:
            await server.stop()
    finally:
        await name_server.stop()


async def _namesrv(host: str, port: int) -> None:
    from cometmq.namesrv.name_server import NameServer  # noqa: PLC0415 - as above

    server = NameServer(host, port)
    await server.start()
    try:
        await _ready(f"name server {address_text(host, server.port)}")
    finally:
        await server.stop()


async def _broker(config: Path | None, overrides: dict[str, Any]) -> None:
    from cometmq.broker.broker import Broker  # noqa: PLC0415 - as above
    from cometmq.broker.settings import load  # noqa: PLC0415 - as above

    settings = load(config, {name: str(value) for name, value in overrides.items()})
    server = Broker(settings.broker, settings.store)
    await server.start()
    try:
        where = settings.broker.namesrv_addr or "none"
        store = settings.broker.store_path_root_dir
        await _ready(f"broker {server.address}, name servers {where}, store {store}")
    finally:
        await server.stop()


async def _ready(what: str) -> None:
    """Say that the servers take requests, then wait until somebody asks them to stop."""
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    click.echo(f"ready: {what}")
    sys.stdout.flush()
    await stopping.wait()


def _run(servers: Coroutine[Any, Any, None]) -> None:
    logging.basicConfig(level=logging.INFO, format=LOG_FORMAT, stream=sys.stderr)
    _raise_file_limit()
    try:
        import uvloop  # noqa: PLC0415 - absent where only clients are installed
    except ImportError:
        servers.close()
        raise SettingsError("a broker needs more packages: pip install 'cometmq[broker]'") from None
    uvloop.run(servers)


def _raise_file_limit() -> None:
    """Allow as many open files as the system lets us: connections and queue files add up."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
