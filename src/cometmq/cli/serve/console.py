"""``cometmq console``: serve pages for those who operate brokers."""

from pathlib import Path

import click

from cometmq.admin.times import parse_duration
from cometmq.cli.access import access
from cometmq.cli.output import json_option, namesrv_option
from cometmq.cli.paths import NamedPath
from cometmq.cli.serve.access import insecure_option
from cometmq.cli.serve.child import stop_at_end_of_input
from cometmq.cli.serve.running import ready, run
from cometmq.console.settings import BODY_BYTES_MAX, EXPORTS_MAX

PORT = 8090


@click.command()
@namesrv_option
@click.option(
    "--store",
    type=NamedPath(file_okay=False),
    help="Show the store directory of a broker that does not run, instead of a cluster.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="Port to listen on."
)
@click.option(
    "--host-name",
    "host_names",
    multiple=True,
    metavar="NAME",
    help="Name under which browsers reach it, for one behind a reverse proxy; repeatable.",
)
@click.option("--read-only", is_flag=True, help="Refuse all that changes something.")
@click.option("--login", is_flag=True, help="Visitors sign in as a user of the cluster, and have its rights.")
@click.option(
    "--connections-max",
    type=click.IntRange(1),
    default=1_024,
    show_default=True,
    help="Most open connections.",
)
@click.option(
    "--waiting-max",
    type=click.IntRange(0),
    default=256,
    show_default=True,
    metavar="N",
    help="Most connections of one address without a whole request, or whose answer is not read; 0 for any.",
)
@click.option(
    "--request-timeout",
    default="30s",
    show_default=True,
    metavar="TIME",
    help="Longest time that a whole request may take.",
)
@click.option("--while-input", is_flag=True, hidden=True, help="Stop at the end of the standard input.")
@click.option(
    "--body-bytes-max",
    type=click.IntRange(1),
    default=BODY_BYTES_MAX,
    show_default=True,
    help="Most bytes of a message's body, decompressed, in an export; of a larger one it says so.",
)
@click.option(
    "--exports-max",
    type=click.IntRange(1),
    default=EXPORTS_MAX,
    show_default=True,
    help="Most exports that run at a time.",
)
@insecure_option
@json_option
def console(
    namesrv: str,
    store: Path | None,
    host: str,
    port: int,
    host_names: tuple[str, ...],
    read_only: bool,
    login: bool,
    connections_max: int,
    waiting_max: int,
    request_timeout: str,
    while_input: bool,
    body_bytes_max: int,
    exports_max: int,
    insecure: bool,
    as_json: bool,
) -> None:
    """Serve pages for those who operate the brokers that name servers know, or of a store directory.

    Open the address that it prints in a browser. A port of 0 takes any free one.
    """
    arguments = access()
    request_ms_max = parse_duration("--request-timeout", request_timeout)

    async def serve() -> None:
        from cometmq.console.console import Console  # noqa: PLC0415 - the help must not wait for it
        from cometmq.console.settings import ConnectionLimits, ConsoleSettings  # noqa: PLC0415 - as above

        settings = ConsoleSettings(
            name_servers="" if store is not None else namesrv,
            store=store,
            host=host,
            host_names=host_names,
            read_only=read_only,
            login=login,
            insecure=insecure,
            limits=ConnectionLimits(connections_max, waiting_max, request_ms_max),
            body_bytes_max=body_bytes_max,
            exports_max=exports_max,
            **arguments,
        )
        async with Console(settings, port) as server:
            if while_input:
                await stop_at_end_of_input()
            fields = {"console": server.address, "console_port": server.port}
            shown = f"name servers {namesrv}" if store is None else f"store {store}"
            fields |= {"name_servers": namesrv} if store is None else {"store": str(store)}
            await ready(f"console http://{server.address}, {shown}", fields, as_json=as_json)

    run("console", serve, extra="console")
