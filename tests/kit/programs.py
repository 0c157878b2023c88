"""Python processes of a test's own: without some packages, with pytest, forked."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

BLOCK = """if True:
    import sys
    class Absent:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] in MISSING:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    for name in MISSING:
        sys.modules[name] = None
    sys.meta_path.insert(0, Absent())
"""
TRY_ALL = """
    import json
    found = {}
    for statement in STATEMENTS:
        try:
            exec(statement, {})
            found[statement] = None
        except BaseException as error:
            found[statement] = [type(error).__name__, str(error)]
    print(json.dumps(found))
"""


def without(packages: Iterable[str], program: str, statements: Sequence[object]) -> Any:
    """Run a program where some packages are not installed, and return what it prints."""
    head = f"MISSING, STATEMENTS = {sorted(packages)!r}, {list(statements)!r}"
    ran = subprocess.run(
        [sys.executable, "-c", f"{head}\n{BLOCK}{program}"], capture_output=True, text=True, check=True
    )
    return json.loads(ran.stdout)


PLUGIN = "cometmq.testing.plugin"
ASYNC = (
    *("-p", "pytest_asyncio.plugin", "-o", "asyncio_mode=auto"),
    *("-o", "asyncio_default_fixture_loop_scope=function"),
)
PATIENCE_S = 100


def run_pytest(directory: Path, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run pytest as if the plugin, and no other, had been found by its entry point."""
    pytest_alone = [sys.executable, "-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    return subprocess.run(
        [*pytest_alone, "-p", PLUGIN, *arguments],
        cwd=directory,
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"} | environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


FORKS = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
NOBODY = "127.0.0.1:1"


def in_child(work: Callable[[], None]) -> int:
    """Run something in a forked process; return its exit code."""
    if (pid := os.fork()) == 0:
        try:
            work()
        except BaseException:  # noqa: BLE001 it must not go on as the test run
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
