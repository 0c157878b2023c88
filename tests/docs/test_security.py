"""The page about security as an operator follows it: all its commands are typed, and print what it shows."""

import os
import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.cli.conftest import PATIENCE_S, Process
from tests.kit.pages import ANY_PORT, FENCED, ROOT, is_shown

TYPED = re.compile(r"^\$ (.+\n(?:> .*\n)*)((?:(?!\$ ).*\n)*)", re.MULTILINE)
SERVER = "cometmq dev "
BIN = Path(sys.executable).parent


class Operator:
    """Somebody with a shell in one directory, the current one, and a server in another terminal."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._environment = os.environ | {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}

    def type(self, command: str) -> str:
        """Return what a command prints, as a terminal shows it."""
        if command.startswith(SERVER):
            server = self._stack.enter_context(Process("dev", *command.split()[2:], *ANY_PORT))
            ready = server.line()
            self._environment["NAMESRV_ADDR"] = ready.split("name server ")[1].split(",")[0]
            return f"{ready}\n"
        ran = subprocess.run(
            ["bash", "-c", f"umask 077\n{command}"],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        return "".join(f"{line.rstrip()}\n" for line in ran.stdout.splitlines())


@pytest.mark.timeout(600)  # a score of processes, on a machine that is busy
def test_an_operator_who_follows_the_page_sees_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("COMETMQ_ACCESS_KEY", "COMETMQ_SECRET_KEY", "ROCKETMQ_HOME"):
        monkeypatch.delenv(name, raising=False)
    page = (ROOT / "docs" / "guide" / "security.md").read_text()
    typed = 0
    with ExitStack() as stack:
        operator = Operator(stack)
        for language, text in FENCED.findall(page):
            for command, shown in TYPED.findall(text) if language == "console" else ():
                if command.startswith("mqadmin "):  # test_mqadmin_access.py types it
                    continue
                printed = operator.type(command.replace("\n> ", "\n").strip())
                assert is_shown(shown, printed), f"$ {command}\n{printed}"
                typed += 1
    assert typed > 15
    secrets = [path.read_text().strip() for path in tmp_path.glob("*.secret")]
    config = tmp_path / "cometmq-data" / "config"
    assert {path.stat().st_mode & 0o777 for path in [*config.glob("users*"), *config.glob("acls*")]} == {
        0o600
    }
    assert len(secrets) == 3 and not any(secret in page for secret in secrets)
