"""Report a server's state to systemd: a datagram to the socket that ``NOTIFY_SOCKET`` names.

Source: sd_notify(3), and systemd.service(5) for ``Type=notify`` and ``WatchdogSec``.
"""

import asyncio
import os
import socket
from typing import Final

from cometmq.logs import get_logger

READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"
ALIVE: Final = "WATCHDOG=1"

_log = get_logger(__name__)


def notify(*lines: str) -> None:
    """Send lines to systemd, ``NAME=value`` each; do nothing where a server was not started by it."""
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
