"""Run servers until a signal stops them, and report to systemd: the same for each command that does.

Source: sd_notify(3), and systemd.service(5) for ``Type=notify`` and ``WatchdogSec``.
"""

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from cometmq.cli.output import print_json, print_line
from cometmq.escaping import printable
from cometmq.extras import require
from cometmq.io.clock import SystemClock
from cometmq.io.garbage import freeze_survivors
from cometmq.logs import EscapingFormatter, get_logger

LOG_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
SWITCH_INTERVAL_S: Final = 0.0005
"""Longest time, in seconds, that another thread may hold up the loop at a time; Python's default is 5 ms."""

READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"
ALIVE: Final = "WATCHDOG=1"

_log = get_logger(__name__)


def run(command: str, serve: Callable[[], Coroutine[Any, Any, None]], *, extra: str = "broker") -> None:
    """Run a command's servers in an event loop. Raises MissingExtra, and what ``serve`` raises."""
    require(extra, f"cometmq {command}")
    import uvloop  # noqa: PLC0415 - absent where only clients are installed

    from cometmq.io import descriptors  # noqa: PLC0415 - Windows has no limit of them

    handler = logging.StreamHandler()
    handler.setFormatter(EscapingFormatter(LOG_FORMAT))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    descriptors.raise_limit()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    with freeze_survivors(SystemClock()):
        uvloop.run(serve())


async def ready(what: str, fields: Mapping[str, Any], *, as_json: bool) -> None:
    """Print that the servers are ready, and report it to systemd; then wait for SIGINT or SIGTERM."""
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    if as_json:
        print_json(fields)
    else:
        print_line(f"ready: {what}")
    sys.stdout.flush()
    notify(READY, f"STATUS={printable(what)}")
    await wait_watched(stopping)


def notify(*lines: str) -> None:
    """Send lines to systemd, ``NAME=value`` each, as a datagram to the socket that ``NOTIFY_SOCKET`` names.

    Do nothing where a server was not started by it.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):  # a name in the abstract namespace
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto("\n".join(lines).encode(), address)
    except OSError as error:
        _log.warning("systemd is not notified of %s: %s", ", ".join(lines), error)


def alive_interval_s() -> float | None:
    """Return how often to report that the process is alive: twice as often as systemd expects it.

    None if systemd does not watch this process.
    """
    watched_us = os.environ.get("WATCHDOG_USEC", "")
    if not watched_us.isdecimal() or int(watched_us) == 0:
        return None
    if os.environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    return int(watched_us) / 2e6


async def wait_watched(stopping: asyncio.Event) -> None:
    """Wait until ``stopping`` is set, and then report it; until then the event loop reports that it runs."""
    interval_s = alive_interval_s()
    while not stopping.is_set():
        try:
            async with asyncio.timeout(interval_s):
                await stopping.wait()
        except TimeoutError:
            notify(ALIVE)
    notify(STOPPING)
