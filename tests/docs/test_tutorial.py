"""The tutorial as a reader goes through it: programs are saved, commands typed, and print what it shows.

On the page ``…`` stands for any text, alone on a line for any lines, and a port for any port: here the broker
takes free ones.
"""

import asyncio
import os
import re
import shlex
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.cli.conftest import COMMAND, PATIENCE_S, Process
from tests.kit.pages import ANY_PORT, FENCED, NAME_SERVER, ROOT, is_shown

from cometmq.admin.cluster import ClusterAdmin

TYPED = re.compile(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
NAMED = re.compile(r"# (\w+\.py)\n")


class Reader:
    """Somebody with two terminals in one directory, the current one."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._programs: dict[str, str] = {}
        self._broker: Process | None = None
        self._name_server = ""

    def save(self, program: str) -> None:
        """Save a program under the name in its first line."""
        named = NAMED.match(program)
        assert named, program
        self._programs[named[1]] = program

    def type(self, command: str) -> str:
        """Return what a command prints."""
        match shlex.split(command):
            case ["pip", "install", *_]:
                return ""
            case ["cometmq", "dev"]:
                return self._start()
            case ["pkill", "-KILL", *_]:
                return self._kill()
            case ["cometmq", *arguments]:
                return self._run(*COMMAND, *arguments)
            case ["python", name]:
                Path(name).write_text(self._programs[name].replace(NAME_SERVER, self._name_server))
                return self._run(sys.executable, "-W", "error", name)
        raise AssertionError(f"nobody knows how to type {command!r} here")

    def _start(self) -> str:
        assert self._broker is None
        self._broker = self._stack.enter_context(Process("dev", *ANY_PORT))
        ready = self._broker.line()
        self._name_server = ready.split("name server ")[1].split(",")[0]
        asyncio.run(until_topics_are_known(self._name_server))
        return f"{ready}\n"

    def _kill(self) -> str:
        assert self._broker is not None
        assert self._broker.kill(signal.SIGKILL).code == -signal.SIGKILL
        self._broker = None
        return ""

    def _run(self, *command: str) -> str:
        environment = os.environ | {"NAMESRV_ADDR": self._name_server}
        ran = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout


async def until_topics_are_known(name_server: str) -> None:
    """Wait until a broker is registered: on a machine that is very busy it is ready a moment sooner."""
    async with asyncio.timeout(PATIENCE_S), ClusterAdmin(name_server) as cluster:
        while not await cluster.topics():  # noqa: ASYNC110 a name server tells nobody what is new
            await asyncio.sleep(0.01)


@pytest.mark.timeout(600)  # a dozen processes, on a machine that is busy
def test_a_reader_of_the_tutorial_sees_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with ExitStack() as stack:
        reader = Reader(stack)
        for language, text in FENCED.findall((ROOT / "docs" / "tutorial.md").read_text()):
            if language == "python":
                reader.save(text)
                continue
            assert language == "console"
            for command, shown in TYPED.findall(text):
                printed = reader.type(command)
                assert is_shown(shown, printed), f"$ {command}\n{printed}"


def test_a_page_that_shows_something_else_is_noticed() -> None:
    assert is_shown("at 127.0.0.1:9876: … ms\n…\nend\n", "at 127.0.0.1:4: 5 ms\nend\n")
    assert is_shown("…\n", "") and is_shown("…\n", "one\ntwo\n")
    assert not is_shown("one\n", "two\n")
    assert not is_shown("one …\n", "one 1\ntwo\n")
