"""``cometmq proxy``: serve RocketMQ 5 clients, which speak gRPC, in front of a name server's brokers."""

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import click

from cometmq.cli.access import access
from cometmq.cli.output import json_option, namesrv_option
from cometmq.cli.paths import NamedPath
from cometmq.cli.serve.access import insecure_option
from cometmq.cli.serve.metrics import metrics_options, take_metrics
from cometmq.cli.serve.running import ready, run
from cometmq.cli.serve.tls import tls_settings

PORT = 8081
_FILE = NamedPath(dir_okay=False)
_FOLDER = NamedPath(file_okay=False)


@click.command()
@namesrv_option
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="Port to listen on."
)
@click.option("--config", type=_FILE, help="Settings file: TOML, or lines key=value.")
@click.option("--grpc-tls-cert", type=_FILE, help="Certificate (PEM) of the port, for clients by TLS …")
@click.option("--grpc-tls-key", type=_FILE, help="… and its key (PEM), if that is in another file.")
@click.option(
    "--grpc-tls-mode",
    type=click.Choice(["disabled", "permissive", "enforcing"]),
    help="No TLS, plain connections and TLS, or TLS only.  [default: permissive with a certificate]",
)
@click.option(
    "--authenticate",
    is_flag=True,
    help="Only serve clients that sign as users of the brokers; needs --credentials of a super user.",
)
@metrics_options
@insecure_option
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Processes that serve the port; each has its own metrics, on the following ports.",
)
@click.option("--worker", type=(_FOLDER, int, int), hidden=True, help="Folder, number and count of workers.")
@click.option("--while-input", is_flag=True, hidden=True, help="Stop at the end of the standard input.")
@json_option
def proxy(
    namesrv: str,
    host: str,
    port: int,
    authenticate: bool,
    insecure: bool,
    workers: int,
    as_json: bool,
    **server: Any,
) -> None:
    """Serve RocketMQ 5 clients, which speak gRPC, in front of the brokers that name servers know.

    Clients connect to HOST:PORT, and to nothing else. A port of 0 takes any free one; the line on standard
    output names it. The --tls options are those of the connections to name servers and brokers.
    """
    metrics = take_metrics(server)
    worker, while_input = server.pop("worker"), server.pop("while_input")
    config = server.pop("config")
    options = {"insecure": insecure, "authenticate": authenticate, **access()}

    async def serve() -> None:
        if workers > 1:
            from cometmq.cli.serve.workers import serve_by_workers  # noqa: PLC0415 - as below

            await serve_by_workers(workers, host, port, metrics, as_json=as_json)
            return
        from cometmq.cli.serve.child import stop_at_end_of_input  # noqa: PLC0415 - as below
        from cometmq.net.address import parse_name_servers  # noqa: PLC0415 - the help must not wait for it
        from cometmq.proxy.fellow_workers import WorkerPlace  # noqa: PLC0415 - as above
        from cometmq.proxy.metrics import endpoint_of  # noqa: PLC0415 - as above
        from cometmq.proxy.proxy import Proxy  # noqa: PLC0415 - as above
        from cometmq.proxy.settings import load  # noqa: PLC0415 - as above

        settings = load(config, _tls(**server))
        async with AsyncExitStack() as stack:
            made = Proxy(parse_name_servers(namesrv), host, port, settings=settings, **options)
            endpoint = None if metrics is None else endpoint_of(made, *metrics)
            await made.start(None if worker is None else WorkerPlace(*worker))
            stack.push_async_callback(made.stop)
            where = f"proxy {made.address}, name servers {namesrv}"
            fields = {"proxy": made.address, "proxy_port": made.port, "name_servers": namesrv}
            if endpoint is not None:
                await endpoint.start()
                stack.push_async_callback(endpoint.stop)
                where += f", metrics {endpoint.address}"
                fields["metrics"] = endpoint.address
            if while_input:
                await stop_at_end_of_input()
            await ready(where, fields, as_json=as_json)

    run("proxy", serve, extra="proxy")


def _tls(
    *, grpc_tls_cert: Path | None, grpc_tls_key: Path | None, grpc_tls_mode: str | None
) -> dict[str, Any]:
    return tls_settings(tls_config=None, tls_mode=grpc_tls_mode, tls_cert=grpc_tls_cert, tls_key=grpc_tls_key)
