"""Run servers until a signal stops them: the same for each command that does."""

import asyncio
import logging
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from cometmq.cli.output import print_json, print_line
from cometmq.cli.serve.notify import READY, notify, wait_watched
from cometmq.escaping import printable
from cometmq.extras import require
from cometmq.io.clock import SystemClock
from cometmq.io.garbage import freeze_survivors
from cometmq.logs import EscapingFormatter

LOG_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
SWITCH_INTERVAL_S: Final = 0.0005
"""Longest time, in seconds, that another thread may hold up the loop at a time; Python's default is 5 ms."""


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
