"""The Python workers of Spark sessions on this machine."""

from collections.abc import Iterator
from pathlib import Path

from cometmq.spark.worker import DAEMONS


def spark_workers() -> Iterator[Path]:
    """Find the folders in ``/proc`` of all Python workers of Spark, and of the daemons that fork them."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (process / "cmdline").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
        if any(name.encode() in arguments for name in DAEMONS):
            yield process
