"""A standalone cluster of Spark on this machine: a master, and a worker with two cores."""

import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Final, TextIO

from pyspark.find_spark_home import _find_spark_home

from cometmq.spark.java import NO_PERF_DATA, find_java, java_home

HOST: Final = "127.0.0.1"
ANY_PORT: Final = ("--port", "0", "--webui-port", "0")
MASTER: Final = "org.apache.spark.deploy.master.Master"
WORKER: Final = "org.apache.spark.deploy.worker.Worker"
STARTED: Final = re.compile(r"Starting Spark master at (spark://\S+)")
REGISTERED: Final = re.compile(r"Successfully registered with master (spark://\S+)")


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """Run one, whose files are in ``folder``; give its master URL."""
    environment = {
        **os.environ,
        "JAVA_HOME": str(java_home(find_java(), folder / "java")),
        "SPARK_DAEMON_JAVA_OPTS": f"{NO_PERF_DATA} -Djava.io.tmpdir={folder}",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_LAUNCHER_OPTS": NO_PERF_DATA,
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
    }
    place = ("--host", HOST, *ANY_PORT)
    size = ("--cores", "2", "--memory", "1g", "--work-dir", str(folder / "work"))
    with (
        started(MASTER, place, STARTED, environment, folder) as url,
        started(WORKER, (*place, *size, url), REGISTERED, environment, folder),
    ):
        yield url


@contextmanager
def started(
    main_class: str,
    arguments: tuple[str, ...],
    ready: re.Pattern[str],
    environment: Mapping[str, str],
    folder: Path,
) -> Iterator[str]:
    """Run a class of Spark's until the block ends; give the URL that it says when it is ready."""
    command = [str(Path(_find_spark_home(), "bin", "spark-class")), main_class, *arguments]
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    said: Future[str] = Future()
    with process, (folder / f"{main_class}.log").open("w") as log:
        reading = Thread(target=copy, args=(process.stderr, log, ready, said))
        reading.start()
        try:
            yield said.result()
        finally:
            process.terminate()
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
