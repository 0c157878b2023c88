"""Several processes of ``cometmq proxy`` on one port, over which the kernel spreads connections.

All calls of a connection reach one of them, so a client's settings and streams are where it is. What else one
of them knows, others ask for by unix sockets in a folder of this process (``proxy/fellow_workers.py``), which
otherwise only holds the port and its children: if one of them ends, all do.
"""

import asyncio
import signal
import socket
import sys
import tempfile
from contextlib import AsyncExitStack
from typing import Final

from cometmq.cli.serve.child import child_server
from cometmq.cli.serve.running import ready
from cometmq.errors import CometMQError
from cometmq.net.listening import cannot_listen

FIRST: Final = 1


async def serve_by_workers(
    count: int, host: str, port: int, metrics: tuple[str, int] | None, *, as_json: bool
) -> None:
    """Run so many proxies with the options of this command until a signal.

    Args:
        metrics: where the first of them shows metrics; the others have the following ports.

    Raises SettingsError if they do not start; CometMQError if one has ended by itself.
    """
    ended: list[int] = []

    def end(code: int) -> None:
        ended.append(code)
        signal.raise_signal(signal.SIGTERM)

    with await asyncio.to_thread(_reserve, host, port) as reserved:
        bound = reserved.getsockname()[1]
        async with AsyncExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="cometmq-proxy-"))
            own = sys.argv[sys.argv.index("proxy") :]
            shared = (*own, "--workers", str(FIRST), "--port", str(bound))
            workers = [
                await stack.enter_async_context(
                    child_server(
                        *shared,
                        "--worker",
                        folder,
                        str(number),
                        str(count),
                        *_metrics_options(metrics, number),
                        environment={},
                        on_end=end,
                    )
                )
                for number in range(count)
            ]
            address, shown = workers[0]["proxy"], [one["metrics"] for one in workers if "metrics" in one]
            text = f"proxy {address}, {count} workers"
            if shown:
                text += f", metrics {', '.join(shown)}"
            fields = {"proxy": address, "proxy_port": bound, "workers": count, "metrics": shown}
            await ready(text, fields, as_json=as_json)
    if ended:
        raise CometMQError(f"a worker has ended with {ended[0]}: see above")


def _reserve(host: str, port: int) -> socket.socket:
    """Bind a socket that shares its port, and does not listen: a port of 0 is then any free one."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    reserved = socket.socket(family, kind, protocol)
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        reserved.bind(address)
    except OSError as error:
        reserved.close()
        raise cannot_listen("proxy", host, port, error) from error
    return reserved


def _metrics_options(metrics: tuple[str, int] | None, number: int) -> tuple[str, ...]:
    """Return the options for the metrics of one worker: each has a port of its own."""
    if metrics is None:
        return ()
    _, first = metrics
    return "--metrics-port", str(first + number if first else 0)
