import asyncio
import os
import signal
from pathlib import Path

import pytest
from tests.cli.conftest import Process

from cometmq.cli.serve import running
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
