"""``cometmq dev``, ``namesrv`` and ``broker``: run servers until they are stopped."""

import asyncio
import socket
from collections.abc import Callable, Collection, Coroutine, Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from cometmq.cli.output import json_option
from cometmq.cli.paths import NamedPath
from cometmq.cli.serve.access import (
    access_in_dev,
    insecure_option,
    name_server_access,
    name_server_access_options,
)
from cometmq.cli.serve.metrics import metrics_options, take_metrics
from cometmq.cli.serve.running import ready, run
from cometmq.cli.serve.tls import server_tls_options, tls_settings
from cometmq.errors import SettingsError
from cometmq.extras import require
from cometmq.net.tasks import until_one_ends

if TYPE_CHECKING:
    from cometmq.broker.broker import Broker
    from cometmq.broker.settings import BrokerSettings, Settings
    from cometmq.namesrv.access import NameServerAccess

DEV_DEFAULTS: Final = {"enablePropertyFilter": True}
"""Settings of ``dev`` that a file may change, so that Spring listeners with SQL92 filters work at once."""
BESIDE: Final = {"proxy": "--grpc-port", "console": "--console-port"}
"""The servers that ``dev`` runs beside its broker, which are also the names of their extras."""
BROKER_PORT = 10911
NAME_SERVER_PORT = 9876
PORT = click.IntRange(0, 65535)
BODY_SIZE = click.IntRange(1024, 16 * 1024 * 1024)

config_option = click.option(
    "--config",
    type=NamedPath(dir_okay=False),
    help="Settings file: TOML, or RocketMQ's own broker.conf.",
)
ignore_option = click.option(
    "--ignore",
    "ignored",
    multiple=True,
    metavar="NAME",
    help="Start although FILE has this setting, which CometMQ does not honour; repeatable.",
)
host_option = click.option("--host", help="Address to listen on.  [default: 127.0.0.1]")
port_option = click.option("--port", type=PORT, help=f"Port of the broker.  [default: {BROKER_PORT}]")
store_option = click.option(
    "--store",
    type=NamedPath(file_okay=False),
    help="Store directory, created if missing.  [default: cometmq-data]",
)


@click.command()
@host_option
@port_option
@click.option(
    "--namesrv-port",
    type=PORT,
    help=f"Port of the name server.  [default: {NAME_SERVER_PORT}; 0 with --port 0]",
)
@store_option
@config_option
@ignore_option
@click.option("--grpc-port", type=PORT, help="Serve RocketMQ 5 clients, too, on this port: see proxy.")
@click.option("--console-port", type=PORT, help="Serve a console, too, on this port: see console.")
@click.option("--tls", "has_tls", is_flag=True, help="Make a certificate in the store's directory, for TLS.")
@metrics_options
@server_tls_options
@insecure_option
@json_option
def dev(
    host: str | None,
    port: int | None,
    namesrv_port: int | None,
    store: Path | None,
    config: Path | None,
    ignored: tuple[str, ...],
    has_tls: bool,
    insecure: bool,
    as_json: bool,
    **server: Any,
) -> None:
    """Run a name server and a broker in one process, for a laptop or a test.

    Options override FILE. A port of 0 takes any free one; the line on standard output names it. Consumers
    may filter by SQL92, unless FILE has enablePropertyFilter=false.
    """
    if has_tls and server["tls_cert"] is not None:
        raise SettingsError("--tls makes a certificate: leave it out with --tls-cert")
    options = {
        "bindAddress": host,
        "listenPort": port,
        "storePathRootDir": store,
        "insecure": insecure or None,
    }
    if namesrv_port is None:
        namesrv_port = 0 if port == 0 else NAME_SERVER_PORT
    beside = server.pop("grpc_port"), server.pop("console_port")
    for extra, port_beside, option in zip(BESIDE, beside, BESIDE.values(), strict=True):
        if port_beside is not None:
            require(extra, f"cometmq dev {option}")
    values = _server_settings(server) | _given(options)
    ports = namesrv_port, *beside
    read = partial(_read_settings, config, values, DEV_DEFAULTS, ignored)
    run("dev", lambda: _dev(read, ports, makes_certificate=has_tls, as_json=as_json))


@click.command()
@click.option(
    "--config", type=NamedPath(dir_okay=False), help="Settings file: TOML, or RocketMQ's namesrv.conf."
)
@ignore_option
@host_option
@click.option("--port", type=PORT, help=f"Port to listen on.  [default: {NAME_SERVER_PORT}]")
@click.option(
    "--registration-topics-max",
    type=click.IntRange(min=1),
    help="Topics that a broker may register uncompressed.  [default: 40000]",
)
@click.option(
    "--request-body-bytes-max", type=BODY_SIZE, help="Bytes of any other request's body …  [default: 98304]"
)
@click.option(
    "--nonstandard-body-bytes-max",
    type=BODY_SIZE,
    help="… and of one that is not standard JSON.  [default: 24576]",
)
@click.option(
    "--acting-masters",
    is_flag=True,
    help="While a master is gone, readers find a slave in its place (supportActingMaster).",
)
@name_server_access_options
@metrics_options
@server_tls_options
@json_option
def namesrv(
    config: Path | None,
    ignored: tuple[str, ...],
    acting_masters: bool,
    insecure: bool,
    as_json: bool,
    **server: Any,
) -> None:
    """Run a name server. Options override FILE.

    With larger limits a single request can hold up all others for longer.
    """
    options = {
        "bindAddress": server.pop("host"),
        "listenPort": server.pop("port"),
        "registrationTopicsMax": server.pop("registration_topics_max"),
        "requestBodyBytesMax": server.pop("request_body_bytes_max"),
        "nonstandardBodyBytesMax": server.pop("nonstandard_body_bytes_max"),
        "supportActingMaster": acting_masters or None,
        "insecure": insecure or None,
    }
    who = {name: server.pop(name) for name in ("users", "closed_routes", "cluster")}
    access = name_server_access(**who, insecure=insecure)
    metrics = take_metrics(server)
    values = tls_settings(**server) | _given(options)
    run("namesrv", lambda: _namesrv(config, ignored, values, metrics, access, as_json=as_json))


@click.command()
@config_option
@ignore_option
@click.option("--namesrv", help="Name servers to register with: host:port;host:port.")
@host_option
@port_option
@store_option
@metrics_options
@server_tls_options
@insecure_option
@json_option
def broker(
    config: Path | None,
    namesrv: str | None,
    host: str | None,
    port: int | None,
    store: Path | None,
    insecure: bool,
    as_json: bool,
    **server: Any,
) -> None:
    """Run a broker. Options override FILE."""
    options = {
        "bindAddress": host,
        "listenPort": port,
        "storePathRootDir": store,
        "namesrvAddr": namesrv,
        "insecure": insecure or None,
    }
    ignored = server.pop("ignored")
    values = _server_settings(server) | _given(options)
    read = partial(_read_settings, config, values, {}, ignored)
    run("broker", lambda: _broker(read, as_json=as_json))


def _read_settings(
    config: Path | None, values: Mapping[str, Any], defaults: Mapping[str, Any], ignored: Collection[str]
) -> "Settings":
    """Read a broker's settings. Raises SettingsError."""
    from cometmq.broker.settings import load  # noqa: PLC0415 - the help must not wait for the broker's imports

    return load(config, values, defaults=defaults, ignored=ignored)


async def _dev(
    read: Callable[[], "Settings"],
    ports: tuple[int, int | None, int | None],
    *,
    makes_certificate: bool,
    as_json: bool,
) -> None:
    from cometmq.broker.broker import Broker  # noqa: PLC0415 - as above
    from cometmq.cli.serve.beside import console_beside, proxy_beside  # noqa: PLC0415 - as above
    from cometmq.namesrv.name_server import NameServer  # noqa: PLC0415 - as above

    settings = read()
    if makes_certificate:
        settings = settings._replace(broker=await asyncio.to_thread(_with_certificate, settings))
    own = settings.broker
    namesrv_port, grpc_port, console_port = ports
    if own.replication.ha_listen_port is None and own.network.listen_port + 1 in ports:
        own = own.changed(ha_listen_port=0)  # the usual port of slaves is wanted for something else
    access = access_in_dev(own)
    name_server = NameServer(
        own.network.bind_address, namesrv_port, limits=own.bodies.limits, access=access, tls=own.tls
    )
    async with AsyncExitStack() as stack:
        await name_server.start()
        stack.push_async_callback(name_server.stop)
        own = _trusting_itself(own.changed(namesrv_addr=name_server.address))
        server = Broker(own, settings.store, users=access.directory)
        await server.start()
        stack.push_async_callback(server.stop)
        store = own.store_path_root_dir
        where = f"broker {server.address}, name server {name_server.address}, store {store}"
        where += _metrics_text(server)
        more = {"name_server": name_server.address, "name_server_port": name_server.port}
        if grpc_port is not None:
            more["proxy"] = await stack.enter_async_context(proxy_beside(own, name_server.address, grpc_port))
            where += f", proxy {more['proxy']}"
        if console_port is not None:
            console = console_beside(own, name_server.address, console_port)
            more["console"] = await stack.enter_async_context(console)
            where += f", console http://{more['console']}"
        if makes_certificate:
            where += f", certificate {own.tls.tls_server_cert_path} (--tls-ca)"
            more["certificate"] = own.tls.tls_server_cert_path
        await ready(where, _fields_of(server, store) | more, as_json=as_json)


async def _namesrv(
    config: Path | None,
    ignored: Collection[str],
    values: Mapping[str, Any],
    metrics: tuple[str, int] | None,
    access: "NameServerAccess",
    *,
    as_json: bool,
) -> None:
    from cometmq.namesrv.metrics import endpoint_of  # noqa: PLC0415 - as above
    from cometmq.namesrv.name_server import NameServer  # noqa: PLC0415 - as above
    from cometmq.namesrv.settings import load  # noqa: PLC0415 - as above

    settings = load(config, values, ignored=ignored)
    server = NameServer(
        settings.bind_address,
        settings.listen_port,
        kv_config_path=Path(settings.kv_config_path) if settings.kv_config_path else None,
        order_messages=settings.order_message_enable,
        acting_masters=settings.support_acting_master,
        limits=settings.body_limits,
        access=access._replace(insecure=settings.insecure),
        tls=settings.tls,
        idle_ms_max=settings.server_channel_max_idle_time_seconds * 1000,
    )
    async with AsyncExitStack() as stack:
        endpoint = None if metrics is None else endpoint_of(server, *metrics, settings.metrics_limits)
        await server.start()
        stack.push_async_callback(server.stop)
        where = f"name server {server.address}"
        fields = {"name_server": server.address, "name_server_port": server.port}
        if endpoint is not None:
            await endpoint.start()
            stack.push_async_callback(endpoint.stop)
            where += f", metrics {endpoint.address}"
            fields["metrics"] = endpoint.address
        await ready(where, fields, as_json=as_json)


async def _broker(read: Callable[[], "Settings"], *, as_json: bool) -> None:
    from cometmq.broker.broker import Broker  # noqa: PLC0415 - as above
    from cometmq.broker.failover.switching import SwitchingBroker  # noqa: PLC0415 - as above

    settings = read()

    def is_ready(server: Broker) -> Coroutine[Any, Any, None]:
        where = settings.broker.network.namesrv_addr or "none"
        store = settings.broker.store_path_root_dir
        fields = _fields_of(server, store) | {"name_servers": list(settings.broker.network.name_servers)}
        text = f"broker {server.address}, name servers {where}, store {store}{_metrics_text(server)}"
        return ready(text, fields, as_json=as_json)

    if settings.broker.replication.enable_controller_mode:
        switching = SwitchingBroker(settings.broker, settings.store)
        await switching.start()
        try:
            assert switching.started is not None, "it has a role"
            await until_one_ends(is_ready(switching.started), switching.ended())
        finally:
            await switching.stop()
        return
    server = Broker(settings.broker, settings.store)
    await server.start()
    try:
        await is_ready(server)
    finally:
        await server.stop()


def _with_certificate(settings: "Settings") -> "BrokerSettings":
    """Create a certificate for this run, if the store can be opened; return the broker's settings with it."""
    from cometmq.broker.name_servers.own_address import own_ip  # noqa: PLC0415 - as above
    from cometmq.io.files import Disk  # noqa: PLC0415 - as above
    from cometmq.net.tls.throwaway import make_certificate  # noqa: PLC0415 - as above
    from cometmq.store.whereabouts import check_can_open  # noqa: PLC0415 - as above

    own = settings.broker
    root = Path(own.store_path_root_dir)
    check_can_open(Disk(), root, settings.store)
    made = make_certificate(root / "tls", (own_ip(own.network), socket.gethostname()))
    return own.changed(tls_server_cert_path=str(made.cert), tls_server_key_path=str(made.key))


def _trusting_itself(settings: "BrokerSettings") -> "BrokerSettings":
    """Return settings with which a broker trusts the name server of its own process, whoever certified it."""
    if not settings.tls.tls_server_cert_path or settings.tls.tls_client_trust_cert_path:
        return settings
    trusted = settings.tls.tls_server_cert_path
    return settings.changed(tls_client_trust_cert_path=trusted, tls_client_check_host=False)


def _given(options: dict[str, Any]) -> dict[str, str]:
    """Return the options given on the command line: they override the file, defaults do not."""
    return {name: str(value) for name, value in options.items() if value is not None}


def _server_settings(options: dict[str, Any]) -> dict[str, Any]:
    """Return a broker's settings that the options of TLS and metrics stand for."""
    metrics = take_metrics(options)
    values = tls_settings(**options)
    if metrics is not None:
        host, port = metrics
        values |= {"metricsExporterType": "PROM", "metricsPromExporterHost": host}
        values["metricsPromExporterPort"] = str(port)
    return values


def _fields_of(server: "Broker", store: str) -> dict[str, Any]:
    """Return the fields that --json prints for a broker that is ready."""
    return {
        "broker": server.address,
        "broker_port": server.port,
        "vip_port": server.vip_port,
        "store": store,
    } | ({} if server.metrics_address is None else {"metrics": server.metrics_address})


def _metrics_text(server: "Broker") -> str:
    return "" if server.metrics_address is None else f", metrics {server.metrics_address}"
