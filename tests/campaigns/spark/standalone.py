"""A standalone cluster of Spark on this machine: a master, and a worker with two cores."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Final, TextIO

from pyspark.find_spark_home import _find_spark_home

from cometmq.spark.java import NO_PERF_DATA, find_java, prepare_java_home

HOST: Final = "127.0.0.1"
ANY_PORT: Final = ("--port", "0", "--webui-port", "0")
MASTER: Final = "org.apache.spark.deploy.master.Master"
WORKER: Final = "org.apache.spark.deploy.worker.Worker"
STARTED: Final = re.compile(r"Starting Spark master at (spark://\S+)")
REGISTERED: Final = re.compile(r"Successfully registered with master (spark://\S+)")


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """Run one, whose files are in ``folder``; give its master URL."""
    place = ("--host", HOST, *ANY_PORT)
    size = ("--cores", "2", "--memory", "1g", "--work-dir", str(folder / "work"))
    spark_class = str(Path(_find_spark_home(), "bin", "spark-class"))
    variables = environment(folder)
    with (
        started((spark_class, MASTER, *place), STARTED, variables, folder / "master.log") as url,
        started((spark_class, WORKER, *place, *size, url), REGISTERED, variables, folder / "worker.log"),
    ):
        yield url


def environment(folder: Path) -> dict[str, str]:
    """Return the variables for a process of Spark that leaves its files in a folder."""
    return {
        **os.environ,
        "JAVA_HOME": str(prepare_java_home(find_java(), folder / "java")),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_DAEMON_JAVA_OPTS": f"{NO_PERF_DATA} -Djava.io.tmpdir={folder}",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_LAUNCHER_OPTS": NO_PERF_DATA,
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
    }


@contextmanager
def started(
    command: Sequence[str], ready: re.Pattern[str], variables: Mapping[str, str], log_file: Path
) -> Iterator[str]:
    """Run a command of Spark's until the block ends; give what it says of where it is when it is ready."""
    process = subprocess.Popen(
        command,
        env=variables,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # a script's Java is to end with it
    )
    said: Future[str] = Future()
    with process, log_file.open("w") as log:
        reading = Thread(target=copy, args=(process.stderr, log, ready, said))
        reading.start()
        try:
            yield said.result()
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            reading.join()


def copy(lines: Iterable[str], log: TextIO, ready: re.Pattern[str], said: Future[str]) -> None:
    """Copy what a process says to a file until it ends; tell what it says first of what is awaited."""
    last = ""
    for last in lines:
        log.write(last)
        found = ready.search(last)
        if found and not said.done():
            said.set_result(found[1])
    if not said.done():
        said.set_exception(AssertionError(f"it has ended, and at last said: {last}"))
