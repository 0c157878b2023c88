"""Tune Spark's Python workers, each of which runs many tasks.

*Modules.* A worker of pyspark's daemon collects garbage after each task (``daemon.py``, ``manager``). Most of
the objects visited belong to the modules of Spark, Arrow and this package, which are never freed: 20 to 30 ms
for each task, in each of the processes that create the source, plan and read; and as much while one of them
imports what it needs of this package.

*Memory.* A batch takes tens of MiB in large blocks. The C library would return them to the system, and the
system would fill them with zeros for the next batch.
"""

import gc
import sys
from functools import cache
from typing import Final

from cometmq.io import memory

KEPT: Final = 64 << 20
"""Bytes of free memory that a worker retains: several batches."""
_DAEMON: Final = "pyspark.daemon"


def is_worker() -> bool:
    """Check whether this process is one of Spark's Python workers."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name == _DAEMON


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
