"""The programs of docs/guide/grpc-programs.md send a message and receive it, as they stand there."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest
from tests.interop import jvm
from tests.interop.grpc_clients.clients import POM, node_with_client, python_with_client
from tests.interop.grpc_clients.cluster import create_topic
from tests.interop.patience import PATIENCE_S
from tests.interop.peers import Peer

pytestmark = pytest.mark.interop

PAGE: Final = Path(__file__).parents[3] / "docs" / "guide" / "grpc-programs.md"
ENDPOINT: Final = "127.0.0.1:8081"
FENCED: Final = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def python_command(folder: Path) -> list[str]:
    return [str(python_with_client()), str(folder / "orders.py")]


def java_command(folder: Path) -> list[str]:
    return [jvm.path_of("java"), *jvm.SMALL_HEAP, "-cp", jvm.class_path(pom=POM), str(folder / "Orders.java")]


def node_command(folder: Path) -> list[str]:
    (folder / "node_modules").symlink_to(node_with_client().absolute() / "node_modules")
    return [jvm.path_of("node"), str(folder / "orders.js")]


def rust_command(folder: Path) -> list[str]:
    (folder / "src").mkdir()
    shutil.move(folder / "main.rs", folder / "src")
    jvm.run_tool("cargo", "build", "--quiet", "--manifest-path", folder / "Cargo.toml")
    return [str(folder / "target" / "debug" / "orders")]


FILES: Final = {
    "python": "orders.py",
    "java": "Orders.java",
    "javascript": "orders.js",
    "toml": "Cargo.toml",
    "rust": "main.rs",
}
COMMANDS: Final = {
    "python": python_command,
    "java": java_command,
    "javascript": node_command,
    "rust": rust_command,
}


@pytest.mark.parametrize(
    ("broker", "proxy_product"), [pytest.param("cometmq", "cometmq", id="@cometmq_shared")], indirect=True
)
@pytest.mark.parametrize(
    "language",
    [
        "python",
        "java",
        pytest.param("javascript", marks=pytest.mark.interop_long),
        pytest.param("rust", marks=pytest.mark.interop_long),
    ],
)
def test_a_program_of_the_guide_receives_what_it_sends(
    broker: Peer, proxy: str, language: str, tmp_path: Path
) -> None:
    create_topic(broker, "orders")
    programs = dict(FENCED.findall(PAGE.read_text()))
    for name, file in FILES.items():
        (tmp_path / file).write_text(programs[name].replace(ENDPOINT, proxy))
    done = subprocess.run(
        COMMANDS[language](tmp_path),
        cwd=tmp_path,
        env=os.environ | {"HOME": str(tmp_path)},  # where clients write their logs
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "a chair" in done.stdout.splitlines()
