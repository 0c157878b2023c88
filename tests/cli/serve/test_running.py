import asyncio
import os
import signal

import pytest

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
