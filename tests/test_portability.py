"""Clients and the commands that ask a cluster import nothing that only POSIX systems have.

So they work on Windows and macOS, where brokers do not run: this hides what is missing there.
"""

import subprocess
import sys
from typing import Final

import pytest

POSIX_ONLY: Final = ("fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty", "uvloop")
"""Modules that Python has on POSIX systems only, and uvloop, which is not built for Windows."""
PROGRAM: Final = """
import sys

HIDDEN = {hidden!r}

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name in HIDDEN:
            raise ModuleNotFoundError("No module named " + repr(name) + ": it is POSIX's", name=name)

{first}
for name in HIDDEN:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Hidden())
import asyncio, os, signal, socket
for module, names in {missing!r}.items():
    for name in names:
        if hasattr(sys.modules[module], name):
            delattr(sys.modules[module], name)
{program}
print("done")
"""
MISSING: Final = {
    "os": (
        "fork",
        "getuid",
        "geteuid",
        "getgid",
        "sched_getaffinity",
        "statvfs",
        "pread",
        "pwrite",
        "preadv",
    ),
    "signal": ("SIGHUP", "SIGKILL", "SIGUSR1", "SIGUSR2", "SIGPIPE"),
    "socket": ("AF_UNIX", "SO_REUSEPORT"),
}
"""Names that these modules lack on Windows."""
LIBRARIES: Final = (
    "import asyncio, click, ctypes, mmap, msgspec, os, signal, socket, ssl, subprocess, tempfile"
)
"""Imported first: these find out by themselves where they are."""


def run_elsewhere(program: str) -> subprocess.CompletedProcess[str]:
    """Run a program as on a system that has nothing of POSIX."""
    text = PROGRAM.format(hidden=POSIX_ONLY, missing=MISSING, first=LIBRARIES, program=program)
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "program",
    [
        "import cometmq\nfor name in cometmq.__all__: getattr(cometmq, name)",
        "import cometmq.client as client\nfor name in client.__all__: getattr(client, name)",
        "import cometmq.blocking",
        "import cometmq.admin.offsets, cometmq.admin.messages, cometmq.admin.access, cometmq.admin.waiting",
        "import cometmq.admin.doctor.cluster",
        "import cometmq.testing.plugin",
    ],
)
def test_clients_import_nothing_of_posix(program: str) -> None:
    ran = run_elsewhere(program)
    assert ran.stdout == "done\n", ran.stderr


SERVERS: Final = {"store", "spark", "demo"}
"""Commands that need a store or Spark, and so a POSIX system."""


def test_commands_that_ask_a_cluster_import_nothing_of_posix() -> None:
    ran = run_elsewhere(
        "from cometmq.cli.main import COMMANDS, cli\n"
        f"for name in COMMANDS.keys() - {SERVERS!r}:\n"
        "    cli.get_command(None, name)\n"
    )
    assert ran.stdout == "done\n", ran.stderr


def test_what_is_hidden_is_missed() -> None:
    assert "No module named 'fcntl'" in run_elsewhere("import cometmq.io.files").stderr
    assert "has no attribute 'getuid'" in run_elsewhere("import os; os.getuid()").stderr
