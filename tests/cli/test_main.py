import resource
import subprocess
import sys

import click
import pytest
from tests.cli.conftest import COMMAND, Process, Run

from cometmq import __version__
from cometmq.cli.main import COMMANDS, cli
from cometmq.errors import StoreLocked

HEAVY = ("numpy", "numba", "uvloop", "pyspark", "pyarrow", "rich")
HELP_RUNS = 5


def test_the_help_lists_every_command_and_the_exit_codes(cometmq: Run) -> None:
    ran = cometmq("--help")
    assert (ran.code, ran.err) == (0, "")
    for name, (_, text) in COMMANDS.items():
        assert name in ran.out and text in ran.out
    for code in ("0 ", "1 ", "2 ", "130 "):
        assert code in ran.out
    assert cometmq("-h") == ran
    assert cometmq("--version").out == f"cometmq, version {__version__}\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_says_what_it_does_as_the_list_does(cometmq: Run, name: str) -> None:
    ran = cometmq(name, "--help")
    assert ran.code == 0 and ran.out.startswith(f"Usage: cometmq {name} ")


@pytest.mark.parametrize("command", ["", "send", "consume", "topic", "dev", "namesrv", "broker", "demo"])
def test_help_imports_nothing_heavy(command: str) -> None:
    script = f"""
import sys
from cometmq.cli.main import main
try:
    main([*{command.split()}, "--help"])
except SystemExit:
    print([name for name in {HEAVY} if name in sys.modules])
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"


def test_what_asks_a_cluster_imports_nothing_heavy_before_it_prints() -> None:
    names = ("cluster", "group", "message", "offset", "lag", "dlq", "tail", "completion")
    script = f"""
import sys
from cometmq.cli.main import cli
for name in {names}:
    cli.get_command(None, name)
print([name for name in {HEAVY} if name in sys.modules])
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


def test_the_help_takes_little_longer_than_python_with_click() -> None:
    def fastest(*command: str) -> float:
        times = []
        for _ in range(HELP_RUNS):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, *command], stdout=subprocess.DEVNULL, check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        return min(times)

    assert fastest(*COMMAND[1:], "--help") < 2 * fastest("-c", "import click")


def test_without_a_command_there_is_help(cometmq: Run) -> None:
    for arguments in ((), ("topic",)):
        ran = cometmq(*arguments)
        assert (
            ran.code == 2 and ran.out == "" and ran.err.startswith(" ".join(("Usage: cometmq", *arguments)))
        )


def test_a_command_that_there_is_not_is_named(cometmq: Run) -> None:
    assert cometmq("serve").failed(2, "'serve'", "cometmq --help")
    assert cometmq("--verbose").failed(2, "--verbose", "cometmq --help")


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (StoreLocked("store is open:\n stop it  \n\nfirst\x1b"), 1, r"store is open:; stop it; first\x1b"),
        (PermissionError(13, "Permission denied", "a/b"), 1, "a/b: Permission denied"),
        (OSError("odd"), 1, "odd"),
        ("\udcff".encode, 2, r"'\udcff' cannot be written as utf-8"),
        (KeyboardInterrupt(), 130, None),
        (click.Abort(), 130, None),
    ],
)
def test_an_error_is_one_line_and_an_exit_code(
    cometmq: Run, monkeypatch: pytest.MonkeyPatch, error: object, code: int, line: str | None
) -> None:
    def fail() -> None:
        if callable(error):
            error()
        assert isinstance(error, BaseException)
        raise error

    monkeypatch.setattr(cli, "get_command", lambda *_: click.command(fail))
    ran = cometmq("anything")
    assert ran.code == code and ran.err.strip() == ("" if line is None else f"error: {line}")


def test_a_command_s_own_exit_code_is_the_process_s(cometmq: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command
    @click.pass_context
    def unsound(context: click.Context) -> None:
        context.exit(1)

    monkeypatch.setattr(cli, "get_command", lambda *_: unsound)
    assert cometmq("anything").code == 1


def test_whoever_stops_reading_is_not_bothered() -> None:
    with Process("--help") as process:
        process.hang_up()
        ended = process.end()
    assert (ended.code, ended.err) == (1, "")
