"""RocketMQ 5's client for Rust, the crate ``rocketmq``, by ``cometmq proxy`` in front of both brokers.

It has producers of each type of messages and a simple consumer, which neither hides messages for longer nor
filters by SQL92. Its programs are built once; that takes a minute or two.
"""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from tests.certificates import Authority
from tests.interop import jvm, proxies
from tests.interop.patience import PATIENCE_S
from tests.interop.peers import Peer
from tests.interop.test_grpc_clients import PACKAGES, bodies, create_group, create_topic

pytestmark = [pytest.mark.interop, pytest.mark.interop_long]

SOURCES: Final = Path(__file__).with_name("grpc_clients") / "rust"


def built_programs() -> Path:
    """Return the program that has been built."""
    files = [SOURCES / "Cargo.toml", SOURCES / "src" / "main.rs"]

    def build(folder: Path) -> None:
        shutil.copytree(SOURCES, folder, dirs_exist_ok=True)
        jvm.run_tool("cargo", "build", "--quiet", "--manifest-path", folder / "Cargo.toml")

    return jvm.made_once("rust-client", files, build, PACKAGES) / "target" / "debug" / "programs"


def run(program: str, proxy: str, topic: str, group: str) -> list[dict[str, Any]]:
    """Run a program; return its lines, without what the client logs between them."""
    command = [str(built_programs()), program, proxy, topic, group]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def proxy_of(broker: Peer, folder: Path) -> Iterator[str]:
    with proxies.cometmq_proxy(broker.namesrv, Authority(folder).certify()) as address:
        yield address


@pytest.fixture
def proxy(broker: Peer, tmp_path: Path) -> Iterator[str]:
    yield from proxy_of(broker, tmp_path)


@pytest.fixture
def asking_proxy(asking_broker: Peer, tmp_path: Path) -> Iterator[str]:
    yield from proxy_of(asking_broker, tmp_path)


def test_a_message_arrives_as_it_was_sent_and_others_are_filtered(broker: Peer, proxy: str) -> None:
    topic = create_topic(broker, "GrpcRust")
    (received,) = run("normal", proxy, topic, "GrpcRust")
    del received["received"]
    named = {"tag": "red", "keys": ["order-1"], "shop": "7"}
    assert received == {"topic": topic, "body": "a chair", "attempt": 1} | named


def test_a_message_group_keeps_its_order(broker: Peer, proxy: str) -> None:
    topic = create_topic(broker, "GrpcRustFifo", "FIFO", queues=4)
    group = create_group(broker, "GrpcRustFifo", consume_message_orderly=True)
    assert bodies(run("ordered", proxy, topic, group)) == ["a0", "a1", "a2", "a3"]


def test_a_delayed_message_comes_in_time(broker: Peer, proxy: str) -> None:
    topic = create_topic(broker, "GrpcRustDelay", "DELAY")
    due, received = run("delayed", proxy, topic, "GrpcRustDelay")
    assert received["body"] == "delayed" and received["received"] >= due["due"]


def test_a_transaction_is_committed_rolled_back_or_asked_for(asking_broker: Peer, asking_proxy: str) -> None:
    name = "GrpcRustTransaction"
    create_topic(asking_broker, name, "TRANSACTION")
    asked, *received = run("transacted", asking_proxy, name, name)
    assert asked == {"asked": "left open"}
    assert sorted(bodies(received)) == ["committed", "left open"]
