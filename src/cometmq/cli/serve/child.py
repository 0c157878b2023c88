"""Servers that run as child processes of a command, which are gone with it however that ends.

A child stops when its standard input ends, and the kernel ends that with the parent.
"""

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from cometmq.errors import SettingsError


class _Input(asyncio.Protocol):
    """The standard input of a child, whose end stops it."""

    def eof_received(self) -> None:
        """Stop as by a signal."""
        signal.raise_signal(signal.SIGTERM)


async def stop_at_end_of_input() -> None:
    """Begin to watch the standard input, whose end stops this process."""
    await asyncio.get_running_loop().connect_read_pipe(_Input, sys.stdin)


@asynccontextmanager
async def child_server(
    command: str, *options: str, environment: Mapping[str, str], on_end: Callable[[int], None]
) -> AsyncIterator[dict[str, Any]]:
    """Run ``cometmq COMMAND`` with these options; provide what it prints as JSON when it is ready.

    Args:
        environment: more variables.
        on_end: called with its exit code if it ends by itself.

    Raises SettingsError if it does not start, for which it has printed the reason.
    """
    program = (sys.executable, "-m", "cometmq.cli.main", command, *options, "--json", "--while-input")
    child = await asyncio.create_subprocess_exec(
        *program, stdin=PIPE, stdout=PIPE, env=os.environ | environment
    )
    assert child.stdout is not None
    line = await child.stdout.readline()
    if not line:
        raise SettingsError(f"the {command} has ended with {await child.wait()}: see above")

    async def watch() -> None:
        on_end(await child.wait())

    watching = asyncio.create_task(watch(), name=f"end of the {command}")
    try:
        yield json.loads(line)
    finally:
        watching.cancel()
        if child.returncode is None:
            child.terminate()
            await child.wait()
