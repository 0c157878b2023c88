"""``cometmq console``: serve pages for those who operate brokers."""

import click

from cometmq.cli.access import access
from cometmq.cli.output import json_option, namesrv_option
from cometmq.cli.serve.access import insecure_option
from cometmq.cli.serve.child import stop_at_end_of_input
from cometmq.cli.serve.running import ready, run

PORT = 8090


@click.command()
@namesrv_option
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
@click.option("--while-input", is_flag=True, hidden=True, help="Stop at the end of the standard input.")
@insecure_option
@json_option
def console(
    namesrv: str,
    host: str,
    port: int,
    host_names: tuple[str, ...],
    read_only: bool,
    login: bool,
    while_input: bool,
    insecure: bool,
    as_json: bool,
) -> None:
    """Serve pages for those who operate the brokers that name servers know.

    Open the address that it prints in a browser. A port of 0 takes any free one.
    """
    arguments = access()

    async def serve() -> None:
        from cometmq.console.console import Console  # noqa: PLC0415 - the help must not wait for it
        from cometmq.console.settings import ConsoleSettings  # noqa: PLC0415 - as above

        settings = ConsoleSettings(
            name_servers=namesrv,
            host=host,
            host_names=host_names,
            read_only=read_only,
            login=login,
            insecure=insecure,
            **arguments,
        )
        async with Console(settings, port) as server:
            if while_input:
                await stop_at_end_of_input()
            fields = {"console": server.address, "console_port": server.port, "name_servers": namesrv}
            text = f"console http://{server.address}, name servers {namesrv}"
            await ready(text, fields, as_json=as_json)

    run("console", serve, extra="console")
