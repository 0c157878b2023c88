import os
import subprocess

import pytest
from click.shell_completion import BashComplete
from tests.cli.conftest import COMMAND, Run

from cometmq.cli.main import COMPLETE, cli


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_script_that_asks_cometmq(cometmq: Run, shell: str) -> None:
    ran = cometmq("completion", shell)
    assert ran.code == 0 and COMPLETE in ran.out and f"{shell}_complete" in ran.out


def test_a_shell_that_is_not_known_is_refused(cometmq: Run) -> None:
    assert cometmq("completion", "tcsh").failed(2, "tcsh", "fish")


@pytest.mark.parametrize(
    ("words", "start", "offered"),
    [([], "topi", ["topic"]), (["topic"], "shr", ["shrink"]), (["lag"], "--wa", ["--watch"])],
)
def test_commands_and_options_are_offered(words: list[str], start: str, offered: list[str]) -> None:
    found = BashComplete(cli, {}, "cometmq", COMPLETE).get_completions(words, start)
    assert [item.value for item in found] == offered


def test_what_the_script_asks_is_answered() -> None:
    asked = {COMPLETE: "bash_complete", "COMP_WORDS": "cometmq topi", "COMP_CWORD": "1"}
    ran = subprocess.run(COMMAND, env=os.environ | asked, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "plain,topic\n"), ran.stderr
