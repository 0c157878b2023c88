"""``cometmq proxy``: serve RocketMQ 5 clients, which speak gRPC, in front of a name server's brokers."""

import click

from cometmq.cli.access import access
from cometmq.cli.output import json_option, namesrv_option
from cometmq.cli.serve.access import insecure_option
from cometmq.cli.serve.running import ready, run

PORT = 8081


@click.command()
@namesrv_option
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="Port to listen on."
)
@insecure_option
@json_option
def proxy(namesrv: str, host: str, port: int, insecure: bool, as_json: bool) -> None:
    """Serve RocketMQ 5 clients, which speak gRPC, in front of the brokers that name servers know.

    Clients connect to HOST:PORT, and to nothing else. A port of 0 takes any free one; the line on standard
    output names it.
    """
    arguments = access()

    async def serve() -> None:
        from cometmq.client.routes import parse_name_servers  # noqa: PLC0415 - the help must not wait for it
        from cometmq.proxy.proxy import Proxy  # noqa: PLC0415 - as above

        async with Proxy(parse_name_servers(namesrv), host, port, insecure=insecure, **arguments) as server:
            fields = {"proxy": server.address, "proxy_port": server.port, "name_servers": namesrv}
            await ready(f"proxy {server.address}, name servers {namesrv}", fields, as_json=as_json)

    run("proxy", serve, extra="proxy")
