"""RocketMQ's classes as Java keeps them in memory, in a file that its processes map.

Most of what a process of RocketMQ costs in its first seconds is reading, checking and linking some thousand
classes. The archive is made once for each content of ``pom.xml`` and each version of Java, from a broker that
has just started; name servers and clients need most of its classes, too. One that does not fit is ignored.
"""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import takewhile
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

from tests.interop import jvm
from tests.interop.ports import HOST, free_port

FILE = "rocketmq.jsa"


@cache
def options() -> tuple[str, ...]:
    """Return the options of a Java process whose class path begins with ``jvm.jars``."""
    release = Path(jvm.path_of("java")).resolve().parents[1] / "release"
    folder = jvm.made_once("archive", [jvm.POM, release], make)
    return (f"-XX:SharedArchiveFile={folder / FILE}",)


def make(folder: Path) -> None:
    """Start a broker and have it write the archive."""
    with TemporaryDirectory() as home, started(Path(home)) as broker:
        jvm.run_tool("jcmd", broker.pid, "VM.cds", "dynamic_dump", folder / FILE)


@contextmanager
def started(home: Path) -> Iterator[subprocess.Popen[str]]:
    """Run a broker that knows no name server, until it is killed."""
    conf = home / "broker.conf"
    conf.write_text(f"listenPort={free_port()}\nbindAddress={HOST}\nstorePathRootDir={home}/store\n")
    command = jvm.command(
        "org.apache.rocketmq.broker.BrokerStartup",
        *("-c", conf),
        home=home,
        options=(*jvm.SMALL_HEAP, *jvm.QUICK_START, *jvm.BROKER_OPENS, "-XX:+RecordDynamicDumpInfo"),
    )
    with subprocess.Popen(
        [*jvm.dies_with_parent(), *command],
        env=jvm.environment(home),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as broker:
        try:
            assert broker.stdout
            printed = list(takewhile(is_not_ready, broker.stdout))
            assert broker.poll() is None, f"the broker has ended:\n{''.join(printed)}"
            Thread(target=broker.stdout.read, daemon=True).start()  # a full pipe would hold it up
            yield broker
        finally:
            broker.kill()


def is_not_ready(text: str) -> bool:
    """Return whether a line of a broker's does not say that it is ready."""
    return "boot success" not in text
