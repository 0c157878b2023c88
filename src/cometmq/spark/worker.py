"""What Spark's Python workers, which are there for many tasks, keep from one to the next.

*Modules.* pyspark's daemon has a worker collect garbage after each task (``daemon.py``, ``manager``). What
the collector goes through are mostly the modules of Spark, Arrow and this package, which stay for good: 20 to
30 ms for each task, in each of the processes that make the source, plan and read.

*Memory.* A batch takes tens of MiB in large pieces. The C library would give them back to the system, and the
system would fill them with zeros for the next batch.
"""

import gc
import sys
from functools import cache
from typing import Final

from cometmq.io import memory

KEPT: Final = 64 << 20
"""Bytes of free memory that a worker keeps: several batches."""
_DAEMON: Final = "pyspark.daemon"


def is_worker() -> bool:
    """Whether this process is one of Spark's Python workers."""
    spec = sys.modules["__main__"].__spec__
    return spec is not None and spec.name == _DAEMON


@cache
def settle() -> None:
    """Keep what is loaded, and memory, if this process is a worker; once is enough.

    It belongs behind a worker's first work, which loads the last of what stays.
    """
    if is_worker():
        gc.freeze()
        memory.retain_heap(KEPT)
