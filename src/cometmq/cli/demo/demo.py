"""``make demo``: the whole product end to end, with checks.

Everything is written to one folder, which is created anew. The broker is a process of its own, so that it can
really be killed.
"""

import asyncio
import hashlib
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import click

from cometmq.cli.demo.report import DemoFailed, by_tag, check, detail, say, speed
from cometmq.cli.demo.traffic import (
    MESSAGES,
    TOPICS,
    find,
    read_numbers,
    send_and_consume,
    send_until_killed,
)
from cometmq.cli.output import print_line
from cometmq.cli.paths import NamedPath
from cometmq.errors import CometMQError, SettingsError
from cometmq.net.address import free_port

COMMAND: Final = (sys.executable, "-m", "cometmq.cli.main")
COMPILE: Final = (sys.executable, "-m", "cometmq.kernels")
LOG: Final = "demo.log"
STANDARD_ERROR: Final = 2
PATIENCE_S: Final = 60.0
"""How long the broker may take to start, or to stop, in seconds."""


class DemoSetup(NamedTuple):
    """The demo's folder, and the ports of its broker and name server."""

    directory: Path
    port: int
    namesrv_port: int

    @property
    def store(self) -> Path:
        """The broker's store directory."""
        return self.directory / "store"

    @property
    def log(self) -> Path:
        """The log file of the broker and of Spark."""
        return self.directory / LOG

    @property
    def name_server(self) -> str:
        """The name server's address."""
        return f"127.0.0.1:{self.namesrv_port}"


@click.command()
@click.option(
    "--directory",
    type=NamedPath(file_okay=False),
    default=Path("cometmq-demo"),
    show_default=True,
    help="Folder for everything that the demo writes; created anew.",
)
def demo(directory: Path) -> None:
    """Send, consume, kill, recover, find, rebuild and analyse, and check every step."""
    began = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # ends the started processes too
    check_spark()
    recreate_folder(directory)
    try:
        run_all(directory)
    except (CometMQError, OSError) as error:
        print_line(f"FAILED: {error}. See {directory / LOG}", err=True)
        sys.exit(1)
    except Exception:
        print_line(f"FAILED with the following error. See {directory / LOG}", err=True)
        raise
    say(f"All checks passed, in {time.monotonic() - began:.0f} s. The files are in {directory}/")


def run_all(directory: Path) -> None:
    """Run all chapters of the demo. Raises DemoFailed if a check fails."""
    port = free_port()
    setup = DemoSetup(directory, port, next(other for other in iter(free_port, None) if other != port))
    compile_kernels()
    acknowledged = send_and_kill(setup)
    recover_and_find(setup, acknowledged)
    rebuild(setup.store)
    analyse(setup)


def check_spark() -> None:
    """Check at the beginning that Spark can run. Raises SettingsError."""
    try:
        from cometmq.spark.java import find_java  # noqa: PLC0415 - Spark takes a second to import
    except ImportError:
        raise SettingsError("the demo needs more packages: pip install 'cometmq[spark,jre]'") from None
    find_java()


def recreate_folder(directory: Path) -> None:
    """Create the folder; remove the files of an earlier demo, but no others. Raises SettingsError."""
    if directory.exists() and any(directory.iterdir()):
        if not (directory / LOG).exists():
            raise SettingsError(f"{directory} has files of other origin: name another folder by --directory")
        shutil.rmtree(directory)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / LOG).touch()


# The broker's process


@contextmanager
def broker(setup: DemoSetup) -> Iterator["subprocess.Popen[str]"]:
    """Run ``cometmq dev`` from its ready line to a clean stop."""
    command = [*COMMAND, "dev", "--store", str(setup.store)]
    command += ["--port", str(setup.port), "--namesrv-port", str(setup.namesrv_port)]
    began = time.monotonic()
    with setup.log.open("ab") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)  # noqa: S603 - ours
    try:
        assert process.stdout is not None
        readable, _, _ = select.select([process.stdout], [], [], PATIENCE_S)
        check(bool(readable) and process.stdout.readline().startswith("ready"), "the broker did not start")
        detail(f"ready in {time.monotonic() - began:.2f} s at 127.0.0.1:{setup.port}")
        yield process
    finally:
        stop(process)


def stop(process: "subprocess.Popen[str]") -> None:
    """Stop the broker, and kill it if it does not stop in time."""
    process.terminate()
    try:
        process.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise DemoFailed(f"the broker did not stop within {PATIENCE_S:.0f} s") from None


# The chapters


def compile_kernels() -> None:
    """Compile the kernels now, which a broker would otherwise do in the background during the demo."""
    say("Compile the bulk operations, once for this version and machine")
    began = time.monotonic()
    run(*COMPILE)
    detail(f"ready in {time.monotonic() - began:.1f} s")


def send_and_kill(setup: DemoSetup) -> set[int]:
    """Send, consume, and kill the broker in the middle of a send; return the acknowledged numbers of it."""
    say("Start a broker, and a name server with it")
    with broker(setup) as process:
        asyncio.run(send_and_consume(setup.name_server))
        say("Kill it with SIGKILL, in the middle of another send")
        with errors_to(setup.log):  # the producer logs warnings about the lost broker
            acknowledged = asyncio.run(send_until_killed(setup.name_server, process))
        check(process.wait(PATIENCE_S) == -signal.SIGKILL, "the broker was not killed")
    detail(f"{len(acknowledged):,} messages of that send were acknowledged")
    return acknowledged


def recover_and_find(setup: DemoSetup, acknowledged: set[int]) -> None:
    """Restart the killed broker on its store; check that every acknowledged message is there."""
    say("Start it again on the same store")
    with broker(setup):
        stored = asyncio.run(read_numbers(setup.name_server))
        lost = acknowledged - set(stored)
        check(not lost, f"{len(lost)} acknowledged messages are missing: {sorted(lost)[:5]}")
        check(len(stored) == len(set(stored)), f"{len(stored) - len(set(stored))} messages are there twice")
        detail(f"{len(stored):,} messages of that send are there, complete, all acknowledged ones among them")
        say("Find one message")
        asyncio.run(find(setup.name_server))


def rebuild(store: Path) -> None:
    """Delete the ConsumeQueues and the index, rebuild them from the CommitLog alone, and compare."""
    say("Stop it, delete consumequeue/ and index/, and rebuild them from the CommitLog alone")
    before = digest(store / "consumequeue")
    for name in ("consumequeue", "index"):
        shutil.rmtree(store / name)
    began = time.monotonic()
    run(*COMMAND, "store", "rebuild", str(store))
    detail(f"rebuilt in {time.monotonic() - began:.1f} s")
    check(digest(store / "consumequeue") == before, "the rebuilt ConsumeQueues differ")
    detail(f"all {len(before)} files of ConsumeQueues are byte for byte the same")
    run(*COMMAND, "store", "verify", str(store))
    detail("cometmq store verify finds the store sound")


def digest(directory: Path) -> dict[str, str]:
    """Return the SHA-256 of each file below ``directory``, by its path."""
    return {
        path.relative_to(directory).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def run(*command: str) -> None:
    """Run a command without output. Raises DemoFailed, with its output, if it fails."""
    result = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own
    check(result.returncode == 0, f"{' '.join(command[1:])}: {result.stdout}{result.stderr}".strip())


def analyse(setup: DemoSetup) -> None:
    """Count by topic and tag in Spark, straight from the store's files, and write Parquet."""
    from cometmq.spark import session  # noqa: PLC0415 - Spark takes a second to import

    say("Count by topic and tag in Spark, straight from the store's files, and write Parquet")
    parquet = setup.directory / "parquet"
    began = time.monotonic()
    with errors_to(setup.log):
        spark = session("local[2]", "cometmq-demo", work_dir=setup.directory / "spark")
        detail(f"Spark {spark.version} is up in {time.monotonic() - began:.1f} s")
        began = time.monotonic()
        messages = spark.read.format("rocketmq").load(str(setup.store))
        rows = messages.groupBy("topic", "tags").count().collect()
        columns = ("topic", "queue_id", "queue_offset", "tags", "keys", "store_time", "body")
        messages.select(*columns).write.parquet(str(parquet), partitionBy="topic")
        written = spark.read.parquet(str(parquet)).count()
        spark.stop()
    counts = {
        topic: Counter({row.tags: row["count"] for row in rows if row.topic == topic}) for topic in TOPICS
    }
    for topic, tags in counts.items():
        check(tags.total() == MESSAGES // len(TOPICS), f"Spark counts {dict(tags)} in {topic}")
        detail(f"{topic:<12}  {by_tag(tags)}")
    total = sum(row["count"] for row in rows)
    check(written == total, f"Parquet has {written:,} rows of {total:,}")
    detail(f"{total:,} messages counted, and written as Parquet, in {speed(total, began)}")


@contextmanager
def errors_to(log: Path) -> Iterator[None]:
    """Redirect standard error, also of Java and Spark, to a file."""
    kept = os.dup(STANDARD_ERROR)
    with log.open("ab") as file:
        os.dup2(file.fileno(), STANDARD_ERROR)
    try:
        yield
    finally:
        os.dup2(kept, STANDARD_ERROR)
        os.close(kept)
