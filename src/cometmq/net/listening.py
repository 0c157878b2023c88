"""Open listening sockets; if an address cannot be used, say which service wants it, and who has it."""

import asyncio
import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from cometmq.errors import SettingsError
from cometmq.net.address import address_text

_PROC: Final = Path("/proc")
_TABLES: Final = ("net/tcp", "net/tcp6")
_LISTENING: Final = "0A"
"""The state of a listening socket in these tables of Linux: proc_net_tcp(5)."""
_PROGRAMS: Final = ("cometmq", "cometmq.cli.main")
"""How the command is called: as a program, and by ``python -m``."""


async def listen(
    service: str, host: str, port: int, backlog: int, *, shares_port: bool = False
) -> list[socket.socket]:
    """Open listening sockets on ``host:port``, one for each address of the host.

    Args:
        service: what is to be reached there, for the error.
        shares_port: whether other processes may listen there, too: the kernel spreads connections over all.

    Raises SettingsError, which names the service, the address and the remedy.
    """
    try:
        return await _listen(host, port, backlog, shares_port=shares_port)
    except OSError as error:
        raise cannot_listen(service, host, port, error) from error


async def _listen(host: str, port: int, backlog: int, *, shares_port: bool) -> list[socket.socket]:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    listening: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            listening.append(one := socket.socket(family, kind, protocol))
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if shares_port:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            one.setblocking(False)
            one.bind(address)
            one.listen(backlog)
    except BaseException:
        for one in listening:
            one.close()
        raise
    return listening


def listen_at(path: Path, backlog: int) -> socket.socket:
    """Open a listening unix socket at a path that is not there yet. Raises OSError."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.setblocking(False)
        listening.bind(str(path))
        listening.listen(backlog)
    except BaseException:
        listening.close()
        raise
    return listening


def cannot_listen(service: str, host: str, port: int, error: OSError) -> SettingsError:
    """Return the error of a service that cannot listen: the service, the address and the remedy."""
    return SettingsError(f"{service}: cannot listen on {address_text(host, port)}: {remedy_of(error, port)}")


def remedy_of(error: OSError, port: int) -> str:
    """Return why a server cannot listen at an address with this port, and the remedy."""
    if error.errno == errno.EADDRINUSE:
        holder = _holder(port)
        if holder == os.getpid():
            return "another service of this process listens there; choose another port"
        program = "another process" if holder is None else f"`{_command(holder)}` (process {holder})"
        return f"{program} listens there; stop it or choose another port"
    if error.errno == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror):
        return "it is not an address of this machine; use one of its addresses, or 127.0.0.1"
    if error.errno == errno.EACCES:
        return "not permitted; choose a port above 1023"
    return error.strerror or str(error)


def _holder(port: int) -> int | None:
    """Return the process that listens at a port if it is this one or one of CometMQ's; None if not.

    It is found only on Linux, and only if its user is this process's, or this is root's.
    """
    inodes = set(_listening_inodes(port))
    for process in (os.getpid(), *_processes()):
        if inodes and (process == os.getpid() or _command(process)) and inodes & set(_sockets_of(process)):
            return process
    return None


def _listening_inodes(port: int) -> Iterator[str]:
    """Find the sockets that listen at a port, as ``/proc`` names them."""
    for table in _TABLES:
        try:
            lines = (_PROC / table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == _LISTENING and int(local.rpartition(":")[2], 16) == port:
                yield f"socket:[{inode}]"


def _processes() -> Iterator[int]:
    return (int(path.name) for path in _PROC.glob("[0-9]*"))


def _sockets_of(process: int) -> Iterator[str]:
    """Return the targets of a process's descriptors; none of a process that is gone or another user's."""
    try:
        yield from (os.readlink(path) for path in (_PROC / str(process) / "fd").iterdir())
    except OSError:
        return


def _command(process: int) -> str:
    """Return the command of CometMQ that a process runs, ``cometmq broker``; empty if it runs none."""
    try:
        words = (_PROC / str(process) / "cmdline").read_text(errors="replace").split("\0")
    except OSError:
        return ""
    at = next((number for number, word in enumerate(words) if Path(word).name in _PROGRAMS), None)
    return "" if at is None else " ".join(["cometmq", *words[at + 1 : at + 2]])
