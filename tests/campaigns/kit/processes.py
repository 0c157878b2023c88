"""Processes of campaigns: forked by a server that has imported all they need, and read line by line."""

import asyncio
import logging
import multiprocessing
import os
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import IO, Any, Final, Self

from tests.interop.peers import HOST, free_port
from tests.live import serving

LINE_MAX: Final = 1 << 20

_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload([__name__, "cometmq.client"])


def take_sigterm_for_ctrl_c() -> None:
    """Handle SIGTERM as Ctrl-C: what this process has begun is ended, and its children with it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets its background jobs ignore it
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))


async def start_python(
    module: str,
    *arguments: str,
    environment: dict[str, str] | None = None,
    stderr: int | IO[Any] | None = None,
) -> asyncio.subprocess.Process:
    """Start a module of Python as the first process of a group of its own, its output in a pipe."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, *arguments),
        stdout=PIPE,
        stderr=stderr,
        env=environment,
        start_new_session=True,
    )


@asynccontextmanager
async def serving_command(
    log: Path, *arguments: str, ended_by: signal.Signals = signal.SIGKILL
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a command of CometMQ's that serves once it has printed a line, and end it by a signal."""
    with log.open("ab") as errors:
        process = await start_python("cometmq.cli.main", *arguments, stderr=errors)
    assert process.stdout is not None
    try:
        line = await process.stdout.readline()
        assert line.startswith(b"ready: "), f"{arguments} is not ready, see {log}: {line!r}"
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(ended_by)
        await process.wait()


class Process:
    """A child that writes lines into a pipe until it ends."""

    def __init__(self, child: BaseProcess, reading: asyncio.Task[None]) -> None:
        self._child = child
        self._reading = reading

    @classmethod
    async def start(
        cls, call: Callable[..., None], *arguments: Any, on_line: Callable[[bytes], None]
    ) -> Self:
        """Start a child that calls ``call`` with the arguments and the pipe's end."""
        mine, its = _forks.Pipe(duplex=False)
        child = _forks.Process(target=call, args=(*arguments, its), daemon=True)
        await asyncio.to_thread(child.start)
        its.close()
        lines = asyncio.StreamReader(LINE_MAX)
        file = os.fdopen(os.dup(mine.fileno()), "rb")
        mine.close()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), file)
        return cls(child, asyncio.create_task(_read(lines, on_line)))

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._child.pid is not None
        return self._child.pid

    async def until(self, event: asyncio.Event) -> None:
        """Wait for something that it says. Raises AssertionError if it ends before."""
        waiting = asyncio.create_task(event.wait())
        await asyncio.wait((waiting, self._reading), return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        assert event.is_set(), f"process {self.pid} ended before it was ready"

    def tell(self, with_signal: signal.Signals) -> None:
        """Send it a signal."""
        os.kill(self.pid, with_signal)

    async def end(self, with_signal: signal.Signals) -> None:
        """End it by a signal, and wait until all that it said was taken."""
        self.tell(with_signal)
        await self._reading
        await asyncio.to_thread(self._child.join)


class BrokerProcess:
    """A broker and a name server that can be ended and started again, on their ports and their store.

    Args:
        prepare: called in the process before all else, by its name: no closure.
        settings: see ``tests.live.serving``.
    """

    def __init__(self, root: Path, prepare: Callable[[], None] | None = None, **settings: Any) -> None:
        self.port, self.namesrv_port = free_port(), free_port()
        self._root = root
        self._prepare = prepare
        self._settings = {"listen_port": self.port, "namesrv_port": self.namesrv_port} | settings
        self._process: Process | None = None

    @property
    def name_server(self) -> str:
        """The name server's address."""
        return f"{HOST}:{self.namesrv_port}"

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process is not None
        return self._process.pid

    async def start(self) -> None:
        """Start it, and wait until it serves."""
        ready = asyncio.Event()
        self._process = await Process.start(
            _serve, self._root, self._prepare, self._settings, on_line=lambda _: ready.set()
        )
        await self._process.until(ready)

    async def end(self, with_signal: signal.Signals) -> None:
        """End it, and wait until it is gone."""
        if self._process is not None:
            await self._process.end(with_signal)
            self._process = None


async def _read(lines: asyncio.StreamReader, on_line: Callable[[bytes], None]) -> None:
    async for line in lines:
        if line.endswith(b"\n"):  # else it was killed in the middle of a word
            on_line(line)


def _serve(
    root: Path, prepare: Callable[[], None] | None, settings: dict[str, Any], pipe: Connection
) -> None:
    async def main() -> None:
        leave = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, leave.set)
        async with serving(root, **settings):
            os.write(pipe.fileno(), b"ready\n")
            await leave.wait()

    logging.disable(logging.WARNING)  # that peers vanish is what campaigns are about
    if prepare is not None:
        prepare()
    asyncio.run(main())
