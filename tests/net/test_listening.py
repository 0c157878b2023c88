"""A server that cannot listen names the service, the address, and who has it."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import Process

from cometmq.errors import SettingsError
from cometmq.net import listening
from cometmq.net.listening import listen, listen_at

LISTEN = """
import socket, sys
one = socket.create_server(("127.0.0.1", 0))
print(one.getsockname()[1], flush=True)
sys.stdin.read()
"""


@pytest.fixture
def stranger() -> Iterator[int]:
    """Start a program that is not CometMQ's and listens; provide its port."""
    command = [sys.executable, "-c", LISTEN]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        yield int(program.stdout.readline())
        program.kill()


async def refused(port: int, host: str = "127.0.0.1") -> str:
    with pytest.raises(SettingsError) as error:
        await listen("proxy", host, port, 1)
    return str(error.value)


async def test_another_service_of_this_process_has_the_port() -> None:
    (one,) = await listen("broker", "127.0.0.1", 0, 1)
    with one:
        port = one.getsockname()[1]
        assert await refused(port) == (
            f"proxy: cannot listen on 127.0.0.1:{port}: another service of this process listens there; "
            "choose another port"
        )


async def test_a_server_of_cometmq_that_has_the_port_is_named_with_its_process() -> None:
    with Process("namesrv", "--port", "0", "--json") as server:
        port = int(re.findall(r'"name_server_port": ?(\d+)', server.line())[0])
        text = await refused(port)
        assert f"proxy: cannot listen on 127.0.0.1:{port}: `cometmq namesrv` (process {server.pid})" in text
        server.kill(signal.SIGTERM)


async def test_a_stranger_that_has_the_port_is_not_named(stranger: int) -> None:
    assert "another process listens there; stop it or choose another port" in await refused(stranger)


async def test_where_the_system_does_not_say_who_listens_the_remedy_is_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(listening, "_PROC", tmp_path)
    (one,) = await listen("broker", "127.0.0.1", 0, 1)
    with one:
        assert "another process listens there" in await refused(one.getsockname()[1])


async def test_an_address_of_another_machine_is_refused() -> None:
    assert "not an address of this machine" in await refused(0, "192.0.2.1")


def test_a_process_that_is_gone_has_no_command_and_no_sockets() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert listening._command(gone.pid) == "" and list(listening._sockets_of(gone.pid)) == []
    assert listening._command(os.getpid()) == ""


async def test_a_unix_socket_is_listened_at_once(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with listen_at(path, 1):
        _, writer = await asyncio.open_unix_connection(path)
        writer.close()
        with pytest.raises(OSError, match="in use"):
            listen_at(path, 1)
