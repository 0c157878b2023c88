"""The other Python clients of RocketMQ: which of them can run here, and why the others cannot.

They are no dependencies of CometMQ: each is installed into an environment that is thrown away.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from benches.load import Load

ROOT: Final = Path(__file__).parents[1]
BINDING: Final = "rocketmq-client-python"
BINDING_VERSION: Final = "0.5.0rc2"
"""The last that has the C++ client inside, for Linux on x86-64: 2.0.0 wants a librocketmq.so of one's own."""
BINDING_MODES: Final = ("sync", "push")
GRPC: Final = "rocketmq-python-client"
GRPC_CANNOT: Final = (
    f"{GRPC}: cannot run against a broker: it speaks gRPC, which only RocketMQ's Java proxy takes"
)


class CannotRun(Exception):
    """A client that cannot be measured here, and why."""


def binding(folder: Path) -> Load:
    """Start a load generator on the binding to the C++ client. Raises CannotRun."""
    environment = folder / "binding"
    python = environment / "bin" / "python"
    wanted = f"{BINDING}=={BINDING_VERSION}"
    _run("make an environment", [sys.executable, "-m", "venv", str(environment)])
    _run("install it", [str(python), "-m", "pip", "install", "-q", "--only-binary", ":all:", wanted])
    _run("import it", [str(python), "-c", "import rocketmq.client"])
    home = {"PYTHONPATH": str(ROOT), "HOME": str(folder)}  # it writes its log there
    return Load([str(python), "-m", "benches.binding_load"], os.environ | home)


def _run(what: str, command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise CannotRun(f"{BINDING} {BINDING_VERSION}: cannot {what}: {''.join(last)}")
