"""Rebuilding ConsumeQueues and Index by Spark, beside the same on one machine: times, memory, bytes.

    python -m benches.bench_spark_rebuild [--files 8] [--file-mib 1024] [--queues 1000] [--master MASTER]

A store is filled. What is derived is rebuilt by ``cometmq store rebuild``, a process of its own, and then by
``cometmq.spark.jobs.rebuild`` on a Spark that runs already, by default on two executors that are processes
of their own. What both made is compared byte for byte. Memory is the most that was resident: of the single
process, and of the largest of Spark's Python workers.
"""

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from benches.fill import Fill
from rich.console import Console
from rich.table import Table

from cometmq.format import layout
from cometmq.spark import session
from cometmq.spark.jobs.rebuild import rebuild
from cometmq.store.settings import StoreSettings
from cometmq.store.store import MessageStore

TOPICS: Final = 125
MB: Final = 1e6
MIB: Final = 1 << 20


def main() -> None:
    """Fill, rebuild twice, compare, print."""
    parser = argparse.ArgumentParser(
        prog="python -m benches.bench_spark_rebuild", description="Rebuild by Spark beside one machine"
    )
    parser.add_argument("--files", type=int, default=8, help="CommitLog files")
    parser.add_argument("--file-mib", type=int, default=1024, help="length of each")
    parser.add_argument("--queues", type=int, default=1_000)
    parser.add_argument("--master", default="local-cluster[2,1,1024]")
    parser.add_argument("--directory", type=Path, help="where the store is made; it is removed")
    options = parser.parse_args()
    subprocess.run([sys.executable, "-m", "cometmq.kernels"], check=True, stdout=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory(prefix="cometmq-bench-", dir=options.directory) as folder:
        store, alone = Path(folder, "store"), Path(folder, "alone")
        messages = fill(store, options.files, options.file_mib, options.queues)
        seconds, peak = rebuild_alone(store)
        for made in (layout.consume_queues_dir, layout.index_dir):
            shutil.copytree(made(store), made(alone), copy_function=copy_sparse)
        spark = session(options.master, "bench", work_dir=Path(folder))
        spark.range(1).count()
        begin = time.perf_counter()
        rebuilt = rebuild(spark, store)
        spark_seconds = time.perf_counter() - begin
        spark.stop()
        title = f"{messages:,} messages, {rebuilt.bytes / MB:,.0f} MB, {rebuilt.queues:,} queues"
        table = Table(title=title, caption=compare(alone, store))
        for column in ("", "one process", f"Spark {options.master}", "ratio"):
            table.add_column(column, justify="right")
        ratio = f"{seconds / spark_seconds:.2f}"
        table.add_row("s", f"{seconds:.1f}", f"{spark_seconds:.1f}", ratio)
        rates = (rebuilt.bytes / MB / taken for taken in (seconds, spark_seconds))
        table.add_row("MB/s", *(f"{rate:,.0f}" for rate in rates), ratio)
        table.add_row("MiB resident", f"{peak / MIB:,.0f}", f"{rebuilt.peak_bytes / MIB:,.0f}", "")
        Console().print(table)


def fill(store: Path, files: int, file_mib: int, queues: int) -> int:
    """Fill a store of so many files; give how many messages it has."""
    settings = StoreSettings(mapped_file_size_commit_log=file_mib * MIB)
    with MessageStore.open(store, settings) as opened:
        filling = Fill(opened, TOPICS, -(-queues // TOPICS))
        filling.up_to(files * file_mib * MIB)
        return filling.count


def rebuild_alone(store: Path) -> tuple[float, int]:
    """Rebuild in a process of its own; give the seconds, and the bytes that it had resident."""
    begin = time.perf_counter()
    command = [sys.executable, "-m", "cometmq.cli.main", "store", "rebuild", str(store), "--json"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - begin
    return seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024


def copy_sparse(source: str, target: str) -> None:
    """Copy a file, holes left out."""
    subprocess.run(["cp", "--sparse=always", source, target], check=True)


def compare(alone: Path, store: Path) -> str:
    """Say where the derived files of two stores differ."""
    made = [{path.relative_to(root) for path in files(root)} for root in (alone, store)]
    both = made[0] & made[1]
    differing = sum((alone / name).read_bytes() != (store / name).read_bytes() for name in both)
    return f"{len(both)} files compared, {differing} differ, {len(made[0] ^ made[1])} only in one"


def files(store: Path) -> list[Path]:
    """List the derived files of a store."""
    directories = (layout.consume_queues_dir(store), layout.index_dir(store))
    return [path for directory in directories for path in directory.rglob("*") if path.is_file()]


if __name__ == "__main__":
    main()
