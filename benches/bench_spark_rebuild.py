"""Rebuilding ConsumeQueues and Index by Spark, beside the same on one machine and by the Java broker.

    python -m benches.bench_spark_rebuild [--files 8] [--file-mib 1024] [--queues 1000] [--master MASTER]
        [--no-java]

A store is filled. What is derived is rebuilt by ``cometmq store rebuild``, a process of its own; then by
``cometmq.spark.jobs.rebuild.rebuild`` on a Spark that runs already, by default on two executors that are
processes of their own; then by a start of the Java broker without ``consumequeue/``, ``index/`` and
``checkpoint``, until the last entry is in its files. What was made is compared byte for byte. Memory is
the most that was resident: of the single process, and of each executor its Java + its Python processes.
"""

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

from benches import kit
from benches.bench_rebuild import compare as compare_names_apart
from benches.bench_rebuild import equal, goal_of, java_rebuild_s
from rich.console import Console
from rich.table import Table
from tests.interop import jvm

from cometmq.format import layout
from cometmq.spark import session
from cometmq.spark.jobs.memory import peak_bytes
from cometmq.spark.jobs.rebuild.rebuild import rebuild
from cometmq.store.recovery.rebuild import Rebuilt

TOPICS: Final = 125
MB: Final = 1e6
MIB: Final = 1 << 20
TASKS: Final = 8
EXECUTOR: Final = b"CoarseGrainedExecutorBackend"
DRIVER: Final = b"org.apache.spark.deploy.SparkSubmit"
JAVA_TIMEOUT_S: Final = 1_800


def main() -> None:
    """Fill, rebuild twice, compare, print."""
    parser = argparse.ArgumentParser(
        prog="python -m benches.bench_spark_rebuild", description="Rebuild by Spark beside one machine"
    )
    parser.add_argument("--files", type=int, default=8, help="CommitLog files")
    parser.add_argument("--file-mib", type=int, default=1024, help="length of each")
    parser.add_argument("--queues", type=int, default=1_000)
    parser.add_argument("--master", default="local-cluster[2,1,1024]")
    parser.add_argument("--java", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--directory", type=Path, help="where the store is made; it is removed")
    options = parser.parse_args()
    kit.compile_kernels()
    with tempfile.TemporaryDirectory(prefix="cometmq-bench-", dir=options.directory) as folder:
        store, alone = Path(folder, "store"), Path(folder, "alone")
        messages = fill(store, options.files, options.file_mib, options.queues)
        on_disk()
        seconds, peak = rebuild_alone(store)
        for made in (layout.consume_queues_dir, layout.index_dir):
            shutil.copytree(made(store), made(alone), copy_function=copy_sparse)
        on_disk()
        by_spark = rebuild_by_spark(store, options.master)
        compared = [f"one process and Spark: {compare(alone, store)}"]
        java = None
        if options.java:
            goal = goal_of(store)
            on_disk()
            java = java_rebuild_s(store, goal, JAVA_TIMEOUT_S)
            compared.append(f"one process and Java: {compare_names_apart(alone, store)}")
        rebuilt = by_spark.rebuilt
        title = f"{messages:,} messages, {rebuilt.bytes / MB:,.0f} MB, {rebuilt.queues:,} queues"
        table = Table(title=title, caption="\n".join(compared))
        for column in ("", "one process", f"Spark {options.master}", f"RocketMQ {jvm.rocketmq_version()}"):
            table.add_column(column, justify="right")
        times = (seconds, by_spark.seconds, java)
        table.add_row("s", *(f"{taken:.1f}" if taken else "" for taken in times))
        table.add_row("MB/s", *(f"{rebuilt.bytes / MB / taken:,.0f}" if taken else "" for taken in times))
        table.add_row("of one process", *(f"{taken / seconds:.2f}" if taken else "" for taken in times))
        by_executor = ", ".join(
            f"{jvm_peak / MIB:,.0f} + {python / MIB:,.0f}" for jvm_peak, python in by_spark.executors
        )
        table.add_row("MiB resident", f"{peak / MIB:,.0f}", by_executor, "")
        table.add_row("of a worker", "", f"{rebuilt.peak_bytes / MIB:,.0f}", "")
        Console().print(table)


def fill(store: Path, files: int, file_mib: int, queues: int) -> int:
    """Fill a store of so many files in a process of its own; give how many messages it has."""
    arguments = {"--topics": TOPICS, "--queues": -(-queues // TOPICS), "--file-mib": file_mib}
    command = [sys.executable, "-m", "benches.fill", str(store), str(files * file_mib)]
    command += [str(word) for argument in arguments.items() for word in argument]
    return int(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def rebuild_alone(store: Path) -> tuple[float, int]:
    """Rebuild in a process of its own; give the seconds, and the bytes that it had resident."""
    begin = time.perf_counter()
    command = [sys.executable, "-m", "cometmq.cli.main", "store", "rebuild", str(store), "--json"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, "the rebuild has failed"
    return time.perf_counter() - begin, usage.ru_maxrss * 1024


class BySpark(NamedTuple):
    """A rebuild by Spark; ``executors``: the most bytes resident of each one's Java, and of its Python."""

    seconds: float
    rebuilt: Rebuilt
    executors: list[tuple[int, int]]


def rebuild_by_spark(store: Path, master: str) -> BySpark:
    """Rebuild on a Spark that runs, and whose Python workers do."""
    spark = session(master, "bench", work_dir=store.parent)
    spark.range(TASKS).mapInArrow(lambda batches: batches, "id bigint").count()
    begin = time.perf_counter()
    rebuilt = rebuild(spark, store, progress=Steps())
    seconds = time.perf_counter() - begin
    families = executor_families(os.getpid())
    executors = [(peak_bytes(java), sum(map(peak_bytes, pythons))) for java, *pythons in families]
    spark.stop()
    return BySpark(seconds, rebuilt, executors)


class Steps:
    """Prints when each step of a rebuild was first seen to run."""

    def __init__(self) -> None:
        self._begin = time.perf_counter()
        self._seen = ""

    def __call__(self, step: str, _done: int, tasks: int) -> None:
        """Record the news of the job."""
        if step != self._seen:
            self._seen = step
            print(f"{time.perf_counter() - self._begin:6.1f} s  {step}, {tasks} tasks", flush=True)


def executor_families(driver: int) -> list[list[int]]:
    """Return the processes of each executor, or of a driver without any: Java's, then Python's."""
    children: dict[int, list[int]] = {}
    commands: dict[int, bytes] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it may have ended
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            commands[int(folder.name)] = (folder / "cmdline").read_bytes()
            children.setdefault(parent, []).append(int(folder.name))

    def family(process: int) -> list[int]:
        return [process, *(one for child in children.get(process, []) for one in family(child))]

    below = family(driver)
    for main_class in (EXECUTOR, DRIVER):
        if found := [process for process in below if main_class in commands[process]]:
            return [family(process) for process in found]
    return []


def on_disk() -> None:
    """Sync all that was written: nobody shall wait for what another one wrote."""
    subprocess.run(["sync"], check=True)


def copy_sparse(source: str, target: str) -> None:
    """Copy a file, holes left out."""
    subprocess.run(["cp", "--sparse=always", source, target], check=True)


def compare(alone: Path, store: Path) -> str:
    """Return where the derived files of two stores differ."""
    made = [{path.relative_to(root) for path in files(root)} for root in (alone, store)]
    both = made[0] & made[1]
    differing = sum(not equal(alone / name, store / name) for name in both)
    return f"{len(both)} files compared, {differing} differ, {len(made[0] ^ made[1])} only in one"


def files(store: Path) -> list[Path]:
    """List the derived files of a store."""
    directories = (layout.consume_queues_dir(store), layout.index_dir(store))
    return [path for directory in directories for path in directory.rglob("*") if path.is_file()]


if __name__ == "__main__":
    main()
