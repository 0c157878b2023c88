import asyncio
import json
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.cli.conftest import PATIENCE_S, Process

from cometmq.cli.serve import running
from cometmq.cli.serve.running import alive_interval_s, notify, wait_watched
from cometmq.errors import MissingExtra
from cometmq.extras import PACKAGES


async def test_a_server_is_ready_until_a_signal_comes(capsys: pytest.CaptureFixture[str]) -> None:
    waiting = asyncio.create_task(running.ready("a server", {"port": 1}, as_json=False))
    await asyncio.sleep(0)
    assert capsys.readouterr().out == "ready: a server\n" and not waiting.done()
    os.kill(os.getpid(), signal.SIGTERM)
    await waiting
    waiting = asyncio.create_task(running.ready("a server", {"port": 1}, as_json=True))
    await asyncio.sleep(0)
    assert capsys.readouterr().out == '{"port":1}\n'
    os.kill(os.getpid(), signal.SIGINT)
    await waiting


def test_a_command_without_its_extra_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def serve() -> None:
        raise AssertionError

    monkeypatch.setitem(PACKAGES, "proxy", ("no_such_package",))
    with pytest.raises(MissingExtra, match=r"cometmq proxy needs no_such_package: .*cometmq\[proxy\]"):
        running.run("proxy", serve, extra="proxy")


def test_the_path_of_a_store_writes_no_lines_into_log_and_output(tmp_path: Path) -> None:
    store = tmp_path / "s\n2031-01-01 00:00:00,000 ERROR cometmq: lost\x1b[2J"
    (store / "consumequeue" / "x\n2031-01-01 00:00:00,000 ERROR cometmq: lost").mkdir(parents=True)
    with Process("dev", "--port", "0", "--store", str(store)) as dev:
        ready = dev.line()
        said = dev.kill(signal.SIGTERM).err.splitlines()
    assert ready.endswith(r"s\n2031-01-01 00:00:00,000 ERROR cometmq: lost\x1b[2J")
    assert any(r"consumequeue/x\n2031-01-01" in line and "is skipped" in line for line in said)
    assert all(line.isprintable() and not line.startswith("2031") for line in said)


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """The socket at which systemd would receive what a server reports."""
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as receiver:
        receiver.bind(str(tmp_path / "notify"))
        receiver.settimeout(PATIENCE_S)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        yield receiver


def test_systemd_is_told_when_a_broker_is_registered_that_it_lives_and_that_it_stops(
    systemd: socket.socket, tmp_path: Path
) -> None:
    with Process(
        *("dev", "--port", "0", "--json", "--store", str(tmp_path / "store")), WATCHDOG_USEC="200000"
    ) as process:
        where = json.loads(process.line())
        ready, status = systemd.recv(1000).decode().split("\n")
        assert ready == "READY=1" and status.startswith(f"STATUS=broker {where['broker']}, name server ")
        assert systemd.recv(1000) == b"WATCHDOG=1"
        ended = process.kill(signal.SIGTERM)
        assert ended.code == 0, ended
    while (last := systemd.recv(1000)) == b"WATCHDOG=1":
        pass
    assert last == b"STOPPING=1"


def test_who_was_not_started_by_systemd_reports_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notify("READY=1")
    monkeypatch.delenv("WATCHDOG_USEC", raising=False)
    assert alive_interval_s() is None


def test_an_abstract_name_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"cometmq-test-{os.getpid()}"
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as receiver:
        receiver.bind(f"\0{name}")
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}")
        notify("READY=1", "STATUS=a")
        assert receiver.recv(100) == b"READY=1\nSTATUS=a"


def test_a_socket_that_is_gone_stops_no_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "none"))
    notify("READY=1")
    assert "systemd is not notified of READY=1" in caplog.text


@pytest.mark.parametrize(
    ("watched_us", "process", "interval_s"),
    [("0", None, None), ("often", None, None), ("30000000", None, 15.0), ("30000000", "1", None)],
)
def test_only_the_process_that_systemd_watches_reports_and_twice_as_often(
    monkeypatch: pytest.MonkeyPatch, watched_us: str, process: str | None, interval_s: float | None
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", watched_us)
    monkeypatch.delenv("WATCHDOG_PID", raising=False)
    if process is not None:
        monkeypatch.setenv("WATCHDOG_PID", process)
    assert alive_interval_s() == interval_s


async def test_a_stop_is_reported_once(systemd: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WATCHDOG_USEC", raising=False)
    stopping = asyncio.Event()
    stopping.set()
    await wait_watched(stopping)
    assert systemd.recv(100) == b"STOPPING=1"
