"""Hosts of their own network namespaces on one machine, joined by a bridge; any direction can be silenced.

A process must run in a namespace of its own (``unshare --net``) before it makes a network: nothing outside is
touched then, and all is gone when the processes are. Needs root, ``ip``, ``unshare`` and ``nsenter``.

Silence is a neighbour's hardware address that nobody has: what is sent to it is lost without a word, as on a
cut line, for connections that stand and for new ones.
"""

import os
import subprocess
from contextlib import ExitStack
from types import TracebackType
from typing import Final, Self

from tests.interop import jvm
from tests.interop.patience import wait_until

NETWORK: Final = "10.77.0"
OWN_ADDRESS: Final = f"{NETWORK}.1"
NOBODY: Final = "02:00:00:00:00:ff"


class Host:
    """One host.

    Attributes:
        name: of the host.
        address: its address.
    """

    def __init__(self, name: str, address: str, pid: int) -> None:
        self.name = name
        self.address = address
        self._enter = ["nsenter", f"--net=/proc/{pid}/ns/net"]

    def command(self, *arguments: str) -> list[str]:
        """Return the command line that runs a program on the host."""
        return [*self._enter, *arguments]

    def silence(self, other: "Host") -> None:
        """Lose all that this host sends to another one from now on."""
        _ip(
            *("neigh", "replace", other.address, "lladdr", NOBODY, "dev", "eth0", "nud", "permanent"),
            host=self,
        )

    def restore(self, other: "Host") -> None:
        """End the silence towards another host."""
        _ip("neigh", "delete", other.address, "dev", "eth0", host=self)


class Network:
    """The hosts, and the process that makes them as one more; open it with ``with``."""

    def __init__(self) -> None:
        self.hosts: list[Host] = []
        self._holders = ExitStack()

    def __enter__(self) -> Self:
        """Create the bridge."""
        assert "hub" not in _ip("-brief", "link"), "the namespace has a bridge: run under `unshare --net`"
        _ip("link", "set", "lo", "up")
        _ip("link", "add", "hub", "type", "bridge")
        _ip("address", "add", f"{OWN_ADDRESS}/24", "dev", "hub")
        _ip("link", "set", "hub", "up")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the processes that keep the hosts' namespaces."""
        self._holders.close()

    def add(self, name: str) -> Host:
        """Add a host."""
        number = len(self.hosts) + 2
        holder = subprocess.Popen([*jvm.dies_with_parent(), "unshare", "--net", "sleep", "infinity"])
        self._holders.callback(holder.wait)
        self._holders.callback(holder.kill)
        _await_namespace(holder.pid)
        host = Host(name, f"{NETWORK}.{number}", holder.pid)
        line = f"line{number}"
        _ip("link", "add", line, "type", "veth", "peer", "name", "eth0", "netns", str(holder.pid))
        _ip("link", "set", line, "master", "hub", "up")
        _ip("address", "add", f"{host.address}/24", "dev", "eth0", host=host)
        for device in ("eth0", "lo"):
            _ip("link", "set", device, "up", host=host)
        self.hosts.append(host)
        return host


def _ip(*arguments: str, host: Host | None = None) -> str:
    command = ["ip", *arguments]
    if host is not None:
        command = host.command(*command)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
    return done.stdout


def _await_namespace(pid: int) -> None:
    """Wait until a process has left the namespace of this one."""
    own = _namespace("self")
    wait_until(lambda: _namespace(pid) != own)


def _namespace(process: int | str) -> str:
    return os.readlink(f"/proc/{process}/ns/net")
