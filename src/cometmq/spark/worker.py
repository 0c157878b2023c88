"""Tune Spark's Python workers, each of which runs many tasks, and end them quietly.

*Modules.* A worker of pyspark's daemon collects garbage after each task (``daemon.py``, ``manager``). Most of
the objects visited belong to the modules of Spark, Arrow and this package, which are never freed: 20 to 30 ms
for each task, in each of the processes that create the source, plan and read; and as much while one of them
imports what it needs of this package.

*Memory.* A batch takes tens of MiB in large blocks. The C library would return them to the system, and the
system would fill them with zeros for the next batch.

*End.* Spark closes the connection of a worker that it does not need any more: of one that waits at the end of
the session, and of one that still reads when a LIMIT or ``show`` has its rows. PySpark's worker tells Spark
of that as of an error; this fails, too, and ``daemon.py`` prints a traceback of the failure.
"""

import gc
import socket
import sys
from collections.abc import Callable
from functools import cache
from typing import Any, Final

from cometmq.io import memory

KEPT: Final = 64 << 20
"""Bytes of free memory that a worker retains: several batches."""
DAEMON: Final = "cometmq.spark.daemon"
"""For the setting ``spark.python.daemon.module``."""
ENDED: Final = 1
"""What a worker returns that is to end: any other code than 0."""
DAEMONS: Final = (DAEMON, "pyspark.daemon")
"""The modules that fork workers, by name: Spark's own forks those that plan in any case."""

Worker = Callable[[socket.socket, bool], int]
"""Runs the next task that comes over a connection: ``worker`` of ``daemon.py``."""


def is_worker() -> bool:
    """Check whether this process is one of Spark's Python workers."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name in DAEMONS


def freeze_modules() -> None:
    """Freeze the loaded modules, if this process is a Spark worker."""
    if is_worker():
        gc.freeze()


@cache
def tune_worker() -> None:
    """Freeze the loaded modules and retain free memory, once, if this process is a Spark worker.

    Call it behind the worker's first work, which loads the last modules.
    """
    freeze_modules()
    if is_worker():
        memory.retain_heap(KEPT)


def quieten_daemon(daemon: Any) -> None:
    """Change a daemon: its workers end without a word when Spark closes their connection.

    Args:
        daemon: the module ``pyspark.daemon``; in a worker whose daemon Spark chose, the main module.
    """
    run_task: Worker = daemon.worker

    def worker(connection: socket.socket, authenticated: bool) -> int:
        try:
            is_closed = not connection.recv(1, socket.MSG_PEEK)
            return ENDED if is_closed else run_task(connection, authenticated)
        except ConnectionError:
            return ENDED

    daemon.worker = worker


def quieten_worker() -> None:
    """Change the daemon's code in this process, if it is a Spark worker.

    It is for the workers that plan: Spark starts PySpark's daemon for them, whatever the setting.
    """
    if is_worker():
        quieten_daemon(sys.modules["__main__"])
