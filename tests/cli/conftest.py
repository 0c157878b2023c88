"""The command line as its users run it: within this process where that says enough, else as a process."""

import asyncio
import io
import json
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

import pytest
from tests.live import BROKER, Live, in_thread

from cometmq.cli.main import main
from cometmq.client import PullConsumer
from cometmq.message import MessageQueue
from cometmq.store import progress

COMMAND = [sys.executable, "-m", "cometmq.cli.main"]
PATIENCE_S = 60
"""For a process on a machine that is busy; nothing waits so long unless it hangs."""


class Ran(NamedTuple):
    """What a command came to."""

    code: int
    out: str
    err: str

    @property
    def values(self) -> list[Any]:
        """Return what it printed as JSON, a document on each line."""
        return [json.loads(line) for line in self.out.splitlines()]

    def failed(self, code: int, *words: str) -> bool:
        """Return whether it failed with a code, and one line that has the words; show the line if not."""
        line = self.err.removesuffix("\n")
        assert self.code == code and "\n" not in line and line.startswith("error: "), self
        assert [word for word in words if word not in line] == [], line
        return True


Run = Callable[..., Ran]


@pytest.fixture
def cometmq(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command within this process; ``text`` is its standard input. Long work shows no progress."""
    monkeypatch.setattr(progress, "SILENT_MS", 3_600_000)

    def run(*arguments: str, text: str = "") -> Ran:
        out, err = io.StringIO(), io.StringIO()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
            main(arguments)
        assert isinstance(ended.value.code, int)
        return Ran(ended.value.code, out.getvalue(), err.getvalue())

    return run


@pytest.fixture
def live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Live]:
    """A broker, and the environment in which commands find its name server."""
    with in_thread(tmp_path / "store") as live:
        monkeypatch.setenv("NAMESRV_ADDR", live.name_server)
        yield live


class Process:
    """A command as a process of its own; as a context manager it is gone at the end."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        self._child = subprocess.Popen(
            [*COMMAND, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | environment,
        )
        assert self._child.stdout and self._child.stderr
        self._out = _Lines(self._child.stdout)
        self._err = _Lines(self._child.stderr)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_running:
            self._child.kill()
        self._child.communicate()

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._child.poll() is None

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._child.pid

    def line(self) -> str:
        """Wait for the next line that it prints."""
        line = self._out.next()
        assert line is not None, self.end()
        return line

    def told(self) -> str:
        """Wait for the next line that it says on standard error."""
        line = self._err.next()
        assert line is not None, self.end()
        return line

    def type(self, text: str) -> None:
        """Return it standard input, which stays open."""
        assert self._child.stdin
        self._child.stdin.write(text.encode())
        self._child.stdin.flush()

    def hang_up(self) -> None:
        """Read no more of what it prints."""
        assert self._child.stdout
        self._child.stdout.close()

    def kill(self, number: signal.Signals) -> Ran:
        """Send a signal, and wait for the end; standard input stays open until then."""
        self._child.send_signal(number)
        self._child.wait(PATIENCE_S)
        return self.end()

    def end(self) -> Ran:
        """Wait for the end."""
        out, err = self._child.communicate(timeout=PATIENCE_S)
        return Ran(self._child.returncode, (self._out.rest + out).decode(), (self._err.rest + err).decode())


class _Lines:
    """Lines out of a pipe, without waiting for more than one; None at its end."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self.rest = b""
        self._pipe = pipe

    def next(self) -> str | None:
        while b"\n" not in self.rest:
            assert select.select([self._pipe], [], [], PATIENCE_S)[0], "it says nothing"
            piece = os.read(self._pipe.fileno(), 65_536)
            if not piece:
                return None
            self.rest += piece
        line, _, self.rest = self.rest.partition(b"\n")
        return line.decode()


@pytest.fixture
def orders(cometmq: Run, live: Live) -> Live:
    """A topic of one queue with three messages, of which group g has consumed one."""
    cometmq("topic", "create", "orders", "--queues", "1")
    cometmq("send", "orders", text="0\n1\n2\n")

    async def main() -> None:
        async with PullConsumer(live.name_server, "g") as consumer:
            await consumer.commit(MessageQueue("orders", BROKER, 0), 1)

    asyncio.run(main())
    return live


class Terminal(io.StringIO):
    """A standard error that a person watches."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def store(golden: Mapping[str, Path], tmp_path: Path) -> Path:
    """A copy of a real broker's store."""
    return Path(
        shutil.copytree(golden["store-clean"], tmp_path / "store", ignore=shutil.ignore_patterns("timer*"))
    )
