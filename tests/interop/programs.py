"""The programs of a test session, run side by side in one process: to start one of Java takes seconds.

Some of RocketMQ's settings are read once in a process's life: programs that want other ones get another one.
"""

import itertools
import json
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Self

from tests.interop import class_archive, jvm
from tests.interop.patience import PROGRAM_S

LINES_SHOWN = 50
CHARACTERS_SHOWN = 3_000

# What a program is given if it wants nothing else.
DEFAULTS = jvm.SILENT | {
    "rocketmq.serialize.type": "JSON",
    "rocketmq.client.rebalance.waitInterval": "1000",  # the client's default is 20 s
}

Line = dict[str, Any]


class Host:
    """A process that runs programs: see ``java/Host.java`` and ``grpc_clients/programs.py``.

    Args:
        home: the folder of what it writes to its standard error.

    Attributes:
        is_fit: whether it may be given more programs. One that failed, or left clients, may disturb others.
    """

    def __init__(self, home: Path, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.is_fit = True
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._running: dict[int, SimpleQueue[Line]] = {}
        self._errors = home / "errors"
        with self._errors.open("wb") as errors:
            self._child = subprocess.Popen(
                [*jvm.dies_with_parent(), *command],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self._reader = threading.Thread(target=self._read_answers, daemon=True)
        self._reader.start()

    def run(self, program: str, arguments: Sequence[str], timeout_s: float) -> list[str]:
        """Run a program to its end and return the lines that it printed.

        Raises:
            AssertionError: it threw something, or its process ended, or it did not end in time and was killed
                with its process; says what it printed.
        """
        answers, printed = SimpleQueue[Line](), list[str]()
        number = next(self._numbers)
        with self._lock:
            assert self.is_fit, "the process has ended"
            self._running[number] = answers
            assert self._child.stdin
            order = {"id": number, "program": program, "arguments": arguments}
            self._child.stdin.write(json.dumps(order) + "\n")
            self._child.stdin.flush()
        try:
            ended = _until_ended(answers, printed, timeout_s)
        except Empty:
            self.kill()
            ended = {"failure": f"did not end within {timeout_s} s", "clients": []}
        self._forget(number, is_fit=not ended["failure"] and not ended["clients"])
        shown = "\n".join(printed[-LINES_SHOWN:])
        assert not ended["failure"], f"{program} {arguments}: {ended['failure']}\nIt printed:\n{shown}"
        return printed

    def kill(self) -> None:
        """End the process, and all that runs in it."""
        self._child.kill()
        self._reader.join()
        with self._child:
            pass  # closes the pipes

    def _forget(self, number: int, *, is_fit: bool) -> None:
        with self._lock:
            del self._running[number]
            self.is_fit &= is_fit
            is_of_no_use = not self.is_fit and not self._running
        if is_of_no_use:
            self.kill()

    def _read_answers(self) -> None:
        assert self._child.stdout
        for line in self._child.stdout:
            answer = json.loads(line)
            with self._lock:
                answers = self._running.get(answer["id"])
            if answers:  # else its time was over
                answers.put(answer)
        errors = self._errors.read_text(errors="replace")[-CHARACTERS_SHOWN:]
        with self._lock:
            self.is_fit = False
            for answers in self._running.values():
                answers.put({"failure": f"the process ended\n{errors}", "clients": []})


class Programs:
    """The Java processes of a session: one for each set of system properties that was asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count()
        self._hosts: dict[tuple[tuple[str, str], ...], Host] = {}
        # They die with the thread that starts them: one that lives as long as this, unlike those of a test.
        self._starter = ThreadPoolExecutor(1, "java-starter")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for host in self._hosts.values():
            host.kill()
        self._starter.shutdown()

    def run(
        self,
        program: str,
        *arguments: object,
        properties: Mapping[str, str] | None = None,
        timeout_s: float = PROGRAM_S,
    ) -> list[Line]:
        """Run a program to its end, as ``jvm.run`` does, and return the JSON lines that it printed."""
        host = self._starter.submit(self._host_with, DEFAULTS | dict(properties or {})).result()
        printed = host.run(program, [str(argument) for argument in arguments], timeout_s)
        return [json.loads(text) for text in printed if text.startswith("{")]

    def _host_with(self, properties: Mapping[str, str]) -> Host:
        key = tuple(sorted(properties.items()))
        host = self._hosts.get(key)
        if host is None or not host.is_fit:
            host = self._hosts[key] = _java_host(self._folder / f"java-{next(self._numbers)}", properties)
        return host


def _java_host(home: Path, properties: Mapping[str, str]) -> Host:
    home.mkdir()
    options = (*jvm.SMALL_HEAP, *jvm.QUICK_START, *class_archive.options())
    command = jvm.command("Host", home=home, programs=(jvm.PROGRAMS,), options=options, properties=properties)
    return Host(home, command, jvm.environment(home))


def _until_ended(answers: SimpleQueue[Line], printed: list[str], timeout_s: float) -> Line:
    """Collect what a program prints, and return the answer at its end. Raises Empty if none comes in time."""
    deadline = time.monotonic() + timeout_s
    while True:
        answer = answers.get(timeout=max(0, deadline - time.monotonic()))
        if "line" not in answer:
            return answer
        printed.append(answer["line"])
