"""Apache Kafka as a peer: one node in KRaft mode, with the defaults of its own start script.

It appends to its log and leaves the flush to the system, as RocketMQ and CometMQ do with ASYNC_FLUSH.
"""

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.interop import jvm, peers
from tests.interop.peers import Peer

HERE: Final = Path(__file__).parent
POM: Final = HERE / "kafka" / "pom.xml"
LOAD: Final = "KafkaLoad"
SHARED_PROGRAMS: Final = ("Window.java", "Reads.java", "Latencies.java", "ProcessUse.java")
PROGRAMS: Final = (
    HERE / "kafka",
    jvm.PROGRAMS / "Launch.java",
    jvm.PROGRAMS / "Lines.java",
    *(HERE / "java" / name for name in SHARED_PROGRAMS),
)
HEAP: Final = ("-Xms1g", "-Xmx1g", "-XX:+UseG1GC")
NODE: Final = 1
CLUSTER_ID: Final = "Y29tZXRtcS1iZW5jaGVzAA"
"""Sixteen bytes in Kafka's own base 64."""
LOGGING: Final = {
    "org.slf4j.simpleLogger.defaultLogLevel": "error",
    "org.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer": "info",
}
READY: Final = "Kafka Server started"


def version() -> str:
    """Return the version of Apache Kafka."""
    (jar,) = jvm.jars(POM).glob("kafka-clients-*.jar")
    return jar.stem.rpartition("-")[2]


@contextlib.contextmanager
def kafka(store: Path) -> Iterator[Peer]:
    """Run a broker that is its own controller; ``Peer.namesrv`` is its address too."""
    store.mkdir(parents=True, exist_ok=True)
    port, controller_port = peers.free_port(), peers.free_port()
    settings = peers.write_settings(
        store.with_name(f"{store.name}.properties"), _settings(store, port, controller_port)
    )
    if not (store / "meta.properties").exists():
        tool = _java("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", settings, home=store.parent)
        subprocess.run(tool, check=True, capture_output=True, text=True)
    command = _java("kafka.Kafka", settings, home=store.parent, options=HEAP)
    with peers.Process(command, ready=READY, environment=os.environ, ended_by=signal.SIGKILL) as broker:
        address = f"{peers.HOST}:{port}"
        yield Peer("kafka", address, address, broker.pid, store)


def load_command(folder: Path, heap: Sequence[str]) -> list[str]:
    """Return the command line of the load generator."""
    return jvm.command(
        "Launch", LOAD, home=folder, programs=PROGRAMS, options=heap, properties=LOGGING, pom=POM
    )


def _settings(store: Path, port: int, controller_port: int) -> dict[str, object]:
    return {
        "process.roles": "broker,controller",
        "node.id": NODE,
        "controller.quorum.voters": f"{NODE}@{peers.HOST}:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{peers.HOST}:{port},CONTROLLER://{peers.HOST}:{controller_port}",
        "log.dirs": store,
        "offsets.topic.replication.factor": 1,
        "group.initial.rebalance.delay.ms": 0,
        "auto.create.topics.enable": "false",
    }


def _java(
    main_class: str, *arguments: object, home: Path, options: Sequence[str] = jvm.SMALL_HEAP
) -> list[str]:
    return jvm.command(main_class, *arguments, home=home, options=options, properties=LOGGING, pom=POM)
