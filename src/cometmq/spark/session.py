"""Start a Spark session with a Java that is found, on this interpreter; the options that a session sets."""

import atexit
import os
import re
import shlex
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from sysconfig import get_path
from typing import Any, Final

from pyspark import SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession

from cometmq.spark.java import NO_PERF_DATA, find_java, prepare_java_home
from cometmq.spark.values import SESSION_PREFIX, known_name
from cometmq.spark.worker import DAEMON

LOG_SETTINGS: Final = Path(__file__).with_name("log4j2.properties")
STOP_SECONDS_MAX: Final = 20
WORK: Final = "work"
ZIPPED: Final = "python"
SOCKET_NAME_BYTES: Final = len("/.01234567-89ab-cdef-0123-456789abcdef.sock")
"""Of the sockets that Spark makes in a folder."""
SOCKET_PATH_BYTES_MAX: Final = 103
"""On macOS, the least of the systems; Linux takes 107 (``sun_path`` in unix(7))."""
JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
ARROW_UNCHECKED: Final = (
    "-Darrow.enable_unsafe_memory_access=true",
    "-Darrow.enable_null_check_for_get=false",
)
"""Spark checks nulls and row counts itself: without Arrow's own checks of each access it reads rows from
Python up to a third faster (``benches.bench_spark_kafka``). Arrow's documents name both."""

LOCAL_DEFAULTS: Final = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
}
"""For a local session; a session on a cluster has its own settings for these."""

SHUFFLE: Final = "spark.sql.shuffle.partitions"
SHUFFLE_PER_CORE: Final = 2
"""Spark's 200 are for clusters. Those of a batch are merged as they are read, but a stream runs a task for
each, with a state store of its own: seconds for each micro-batch."""

DEFAULTS: Final = {
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
}


def session(
    master: str = "local[*]",
    app_name: str = "cometmq",
    *,
    work_dir: Path | None = None,
    conf: Mapping[str, str] = {},
) -> SparkSession:
    """Return this process's Spark session; start it, and a Java for it, if there is none.

    A thread that starts streams to topics must call this: Spark looks up sinks that are written in Python in
    the active session of the thread.

    Args:
        master: Spark's master URL; ``local[2]`` runs on two threads of this machine.
        app_name: the application's name in Spark.
        work_dir: for the files of Java and Spark while they run; by default the system's temporary folder.
            They are removed when this process ends.
        conf: Spark's own settings, over the defaults above: ``{"spark.driver.memory": "4g"}``.

    Raises:
        SettingsError: there is no Java that Spark can run on.
    """
    settings: dict[str, str] = {}
    environment = {"PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON") or sys.executable}
    if SparkContext._active_spark_context is None:  # noqa: SLF001  Spark offers no other way to ask
        settings |= DEFAULTS | (LOCAL_DEFAULTS if master.startswith("local") else {}) | _shuffle(master)
    if SparkContext._gateway is None:  # noqa: SLF001  no Java was started yet
        folder = _temporary_folder(work_dir)
        settings |= {"spark.local.dir": str(folder)}
        conf = {**conf, JAVA_OPTIONS: f"{_java_options(folder)} {conf.get(JAVA_OPTIONS, '')}".strip()}
        if master.startswith("local") and os.name != "nt":  # Windows lets few users make links
            settings |= _worker_settings(folder, environment["PYSPARK_PYTHON"])
            environment |= {"SPARK_HOME": str(_spark_home(folder / "home", environment["PYSPARK_PYTHON"]))}
        environment |= {
            "JAVA_HOME": str(prepare_java_home(find_java(), folder)),
            "SPARK_LAUNCHER_OPTS": NO_PERF_DATA,
        }
        atexit.register(_end_java)
        _exit_on_sigterm()
    builder = SparkSession.builder.master(master).appName(app_name)
    for name, value in {**settings, **conf}.items():
        builder = builder.config(name, value)
    with _environment(environment):
        made: SparkSession = builder.getOrCreate()
    _activate(made)
    return made


def _shuffle(master: str) -> dict[str, str]:
    """Return the setting for shuffles on this machine alone; none for a cluster."""
    found = re.fullmatch(r"local(?:\[(\d+|\*)(?:, *\d+)?\])?", master)
    if found is None:
        return {}
    cores = (os.cpu_count() or 1) if found[1] == "*" else int(found[1] or 1)
    return {SHUFFLE: str(cores * SHUFFLE_PER_CORE)}


def _temporary_folder(parent: Path | None) -> Path:
    """Create a folder that is removed at exit; ``_end_java`` is registered later, so it runs before."""
    if parent is not None:
        parent.mkdir(parents=True, exist_ok=True)
    folder = tempfile.TemporaryDirectory(prefix="cometmq-spark-", dir=parent, ignore_cleanup_errors=True)
    atexit.register(folder.cleanup)
    return Path(folder.name).absolute()


def _spark_home(folder: Path, interpreter: str) -> Path:
    """Create a home for Spark on this machine, with what is in the installed one but for two folders.

    ``work``: there ``local-cluster`` writes the files of executors. ``python``: a zip of PySpark, which comes
    before the installed package on the path of each Python process that Spark starts. Nothing in it is
    compiled, so a start takes 0.6 s longer (``benches.bench_spark_kafka``, the first read of a session). It
    is left out if the interpreter that runs these processes has the same package installed.
    """
    installed = Path(_find_spark_home()).absolute()
    packaged = Path(get_path("purelib"), "pyspark").absolute()
    is_zip_needed = interpreter != sys.executable or installed != packaged
    left_out = {WORK} if is_zip_needed else {WORK, ZIPPED}
    folder.mkdir()
    for path in installed.iterdir():
        if path.name not in left_out:
            (folder / path.name).symlink_to(path)
    return folder


def _worker_settings(folder: Path, interpreter: str) -> dict[str, str]:
    """Return the settings for Python workers on this machine: they end quietly, and have Unix sockets.

    Over Unix sockets reads are up to two fifths faster than over TCP (``benches.bench_spark_kafka``, 128 B).
    TCP remains if the path of ``folder``, for the sockets, is too long; and all remains as Spark has it if
    another interpreter runs the workers, which may not have this package.
    """
    if interpreter != sys.executable:
        return {}
    settings = {"spark.python.daemon.module": DAEMON}
    if len(os.fsencode(folder)) + SOCKET_NAME_BYTES <= SOCKET_PATH_BYTES_MAX:
        settings |= {
            "spark.python.unix.domain.socket.enabled": "true",
            "spark.python.unix.domain.socket.dir": str(folder),
        }
    return settings


def _activate(session: Any) -> None:
    """Set the active session of the calling thread, as Spark does for the thread that creates it."""
    session._get_j_spark_session_class(session._jvm).setActiveSession(session._jsparkSession)  # noqa: SLF001  Spark offers no other way


def _exit_on_sigterm() -> None:
    """Exit on SIGTERM, so that files are removed, unless the program has a handler of its own."""
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


def _java_options(folder: Path) -> str:
    options = [
        f"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}",
        f"-Djava.io.tmpdir={folder}",
        NO_PERF_DATA,
        *ARROW_UNCHECKED,
    ]
    return shlex.join(options)


def _end_java() -> None:
    """Stop Spark, and wait until its Java has removed its files and ended: it ends with its input."""
    context = SparkContext._active_spark_context  # noqa: SLF001  Spark offers no other way to ask
    if context is not None:
        context.stop()
    process = getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001  nor to wait
    if process is not None and process.stdin is not None:
        process.stdin.close()
        process.wait(STOP_SECONDS_MAX)


@contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for the processes started inside the block."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def session_options(spark: SparkSession) -> dict[str, Any]:
    """Return the options that a session has set, for ``options(**session_options(spark))``.

    They are its settings that begin with ``spark.rocketmq.``. Spark passes a source written in Python the
    options of the read or write, and no settings of the session: the source runs in processes of its own,
    without an active session, and only sources in Java can have a prefix of settings
    (``SessionConfigSupport``). So the program passes the session's settings as options.

    ::

        spark.conf.set("spark.rocketmq.namesrv", "127.0.0.1:9876")
        spark.read.format("rocketmq").options(**session_options(spark), subscribe="orders").load()

    A read or write ignores those that its kind does not have, and those of which it sets an alternative:
    ``assign`` where the session sets ``subscribe``. Its own options have precedence.

    Args:
        spark: a session in this process, or one of Spark Connect.

    Raises:
        SettingsError: a setting with the prefix is no option; suggests a similar one.
    """
    from cometmq.spark import options as of_files  # noqa: PLC0415  a source's processes need none of these three
    from cometmq.spark.live import options as of_reads  # noqa: PLC0415  as above
    from cometmq.spark.sink import sink as of_writes  # noqa: PLC0415  as above

    known = {*of_files.OPTIONS, *of_reads.OPTIONS, *of_writes.OPTIONS}
    found = {name: text for name, text in spark.conf.getAll.items() if name.startswith(SESSION_PREFIX)}
    for name in found:
        known_name(name.removeprefix(SESSION_PREFIX), sorted(known))
    return found
