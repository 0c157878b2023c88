"""Stands in for systemd, which a container does not run: starts units, hears of them, and stops them.

What is left out is the watchdog, and the confinement, which ``systemd-analyze`` judges
(``tests/docs/test_packaging.py``).
"""

import os
import re
import shlex
import signal
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, Self

from tests.interop import jvm

PATIENCE_S: Final = 300
"""Longest start and stop on a busy machine."""
TURN_S: Final = 0.2
VERBS: Final = {
    "daemon-reload": (False, False), "enable": (False, True), "start": (False, True), "stop": (True, False),
    "restart": (True, True),
}  # fmt: skip
"""Whether each stops units, and whether it starts them."""
_VARIABLE: Final = re.compile(r"\$(\w+)")


class Unit(NamedTuple):
    """What a unit's file says.

    Attributes:
        files: files of variables, a line each.
        after: the units that are started before it, if they are started together.
    """

    command: str
    variables: Mapping[str, str]
    files: Sequence[Path]
    folder: Path
    umask: int
    after: Sequence[str]


class RunningUnit(NamedTuple):
    """A unit that runs, the socket that it notifies, and the file of what it prints."""

    process: "subprocess.Popen[bytes]"
    socket: socket.socket
    log: Path


def parse(text: str) -> Unit:
    """Parse the text of a unit's file, as far as it is needed here."""
    lines = [line.partition("=") for line in text.splitlines() if not line.startswith(("#", "["))]
    values = {name: value for name, _, value in lines if name}
    return Unit(
        values["ExecStart"],
        dict(value.split("=", 1) for name, _, value in lines if name == "Environment"),
        [Path(value.removeprefix("-")) for name, _, value in lines if name == "EnvironmentFile"],
        Path(values.get("WorkingDirectory", "/")),
        int(values.get("UMask", "022"), 8),
        [word.removesuffix(".service") for word in values.get("After", "").split()],
    )


class Systemd:
    """Starts and stops units; as a context manager it kills those that still run.

    Args:
        folder: of the sockets and logs.
        unit_text: returns the text of a unit's file.
        user: the number of the user, and of its group, that the services run as; None for this process's.

    Attributes:
        is_notified: whether the services notify systemd; else their line ``ready:`` is waited for.
    """

    def __init__(self, folder: Path, unit_text: Callable[[str], str], user: int | None = None) -> None:
        self.is_notified = True
        self._folder = folder
        self._unit_text = unit_text
        self._user = user
        self._running: dict[str, RunningUnit] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for service in self._running.values():
            service.process.kill()
            service.process.wait()
            service.socket.close()

    def do(self, line: str) -> None:
        """Run what a line ``systemctl …`` says. Raises AssertionError if a unit does not start or stop."""
        _, verb, *words = shlex.split(line)
        stops, starts = VERBS[verb]
        names = self._in_order([word for word in words if not word.startswith("-")])
        for name in reversed(names) if stops else ():
            self.stop(name)
        for name in names if starts else ():
            self.start(name)

    def tell_to_stop(self, name: str) -> None:
        """Send a service the signal to stop, and go on."""
        self._running[name].process.send_signal(signal.SIGTERM)

    def await_end(self, name: str) -> None:
        """Wait for the end of a service. Raises AssertionError if it does not end with 0."""
        service = self._running[name]
        status = service.process.wait(PATIENCE_S)
        del self._running[name]
        service.socket.close()
        assert status == 0, f"{name} ended with {status}:\n{_end_of(service.log)}"

    def stop(self, name: str) -> None:
        """Stop a service. Raises AssertionError if it does not end with 0."""
        self.tell_to_stop(name)
        self.await_end(name)

    def start(self, name: str) -> None:
        """Start a service, and wait until it is ready. Raises AssertionError if it is not."""
        assert name not in self._running, f"{name} runs"
        service = self._running[name] = self._spawn(name)
        for _ in range(int(PATIENCE_S / TURN_S)):
            assert service.process.poll() is None, f"{name} ended:\n{_end_of(service.log)}"
            if self._is_ready(service):
                return
        raise AssertionError(f"{name} was not ready after {PATIENCE_S} s:\n{_end_of(service.log)}")

    def _in_order(self, names: Sequence[str]) -> list[str]:
        """Return units in the order in which they are started together."""
        units = {name: parse(self._unit_text(name)) for name in names}
        return sorted(names, key=lambda name: len(units.keys() & set(units[name].after)))

    def _is_ready(self, service: RunningUnit) -> bool:
        """Wait a turn for a service to be ready; return whether it is."""
        if self.is_notified:
            with suppress(TimeoutError):
                return b"READY=1" in service.socket.recv(4096).splitlines()
            return False
        with suppress(subprocess.TimeoutExpired):
            service.process.wait(TURN_S)
        return b"ready: " in service.log.read_bytes()

    def _spawn(self, name: str) -> RunningUnit:
        unit = parse(self._unit_text(name))
        address, log = self._folder / f"{name}.socket", self._folder / f"{name}.log"
        address.unlink(missing_ok=True)
        notified = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        notified.bind(str(address))
        notified.settimeout(TURN_S)
        address.chmod(0o777)  # the service is of another user
        variables = {"PATH": os.defpath, "HOME": str(unit.folder), "NOTIFY_SOCKET": str(address)}
        variables |= unit.variables
        for path in unit.files:
            variables |= dict(line.split("=", 1) for line in path.read_text().splitlines())
        words = shlex.split(_VARIABLE.sub(lambda found: variables[found[1]], unit.command))
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*jvm.dies_with_parent(), *words],
                env=variables,
                cwd=unit.folder,
                umask=unit.umask,
                user=self._user,
                group=self._user,
                extra_groups=None if self._user is None else (),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        return RunningUnit(process, notified, log)


def _end_of(log: Path) -> str:
    return log.read_text()[-2_000:]
