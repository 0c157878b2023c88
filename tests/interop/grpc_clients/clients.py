"""RocketMQ 5's own clients, each at one of the proxies: how tests choose, start and address them."""

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from tests.interop import jvm, peers
from tests.interop.patience import PATIENCE_S
from tests.interop.programs import Host, Line

PROGRAMS: Final = Path(__file__).parent
POM: Final = PROGRAMS / "pom.xml"
NODE: Final = PROGRAMS / "node"
RUST: Final = PROGRAMS / "rust"
PACKAGES: Final = Path(__file__).parents[3] / "build"  # not among the tests, whose sources are judged

RARE: Final = ("Node", "Rust")
"""Clients whose programs need what ``make interop`` does not ask of a machine."""

Run = Callable[..., list[Line]]


class Client(NamedTuple):
    """One of the clients whose programs have the same names, arguments and lines, at one of the proxies."""

    name: str
    proxy: str
    run: Run

    def named(self, what: str) -> str:
        """Return a name for a topic or a group that is not another client's, nor another proxy's."""
        return f"Grpc{what}{self.name}{self.proxy}"


def each_way(broker: str, group: str, *clients: str) -> pytest.MarkDecorator:
    """Run a test with each client by our proxy in front of both brokers, by RocketMQ's in front of its own.

    Args:
        broker: the fixture of the broker.
        group: of tests that share the broker.
    """
    ways = [
        pytest.param(
            *(product, proxy, client),
            id=f"@{product}_{group}-{client}-{proxy}",
            marks=[pytest.mark.interop_long] if client in RARE or proxy == "rocketmq" else [],
        )
        for product, proxy in (*((product, "cometmq") for product in peers.START), ("rocketmq", "rocketmq"))
        for client in clients
    ]
    return pytest.mark.parametrize((broker, "proxy_product", "client"), ways, indirect=True)


def python_with_client() -> Path:
    """Return a Python that has the client: packages as it wants them, apart from those of here."""
    requirements = PROGRAMS / "requirements.txt"

    def install(folder: Path) -> None:
        jvm.run_tool(sys.executable, "-m", "venv", folder)
        pip = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile")
        jvm.run_tool(str(folder / "bin" / "python"), *pip, "-r", requirements)

    return jvm.made_once("python-client", [requirements], install, PACKAGES) / "bin" / "python"


def node_with_client() -> Path:
    """Return a folder with the programs of Node.js, and the packages that they need."""
    files = [NODE / name for name in ("package.json", "package-lock.json", "programs.js")]

    def install(folder: Path) -> None:
        for file in files:
            shutil.copy(file, folder)
        options = ("--no-audit", "--no-fund", "--ignore-scripts", "--silent")
        jvm.run_tool("npm", "ci", *options, "--prefix", folder)

    return jvm.made_once("node-client", files, install, PACKAGES)


def rust_programs() -> Path:
    """Return the program of Rust, which has been built: that takes a minute or two, once."""
    files = [RUST / "Cargo.toml", RUST / "src" / "main.rs"]

    def build(folder: Path) -> None:
        shutil.copytree(RUST, folder, dirs_exist_ok=True)
        jvm.run_tool("cargo", "build", "--quiet", "--manifest-path", folder / "Cargo.toml")

    return jvm.made_once("rust-client", files, build, PACKAGES) / "target" / "debug" / "programs"


def programs_of(home: Path, command: Callable[[], list[str]]) -> Iterator[Run]:
    """Provide what runs a program of a process, which is started when the first is run."""
    environment = os.environ | {"HOME": str(home)}  # where clients write their logs
    hosts: list[Host] = []

    def run(program: str, *arguments: object) -> list[Line]:
        if not hosts or not hosts[-1].is_fit:
            hosts.append(Host(home, command(), environment))
        printed = hosts[-1].run(program, [str(argument) for argument in arguments], PATIENCE_S)
        return [json.loads(line) for line in printed]

    yield run
    for host in hosts:
        host.kill()


def bodies(lines: list[Line]) -> list[str]:
    return [line["body"] for line in lines]


def texts(*messages: dict[str, Any]) -> list[str]:
    return [json.dumps(message) for message in messages]
