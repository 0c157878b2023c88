"""The directory that a job fills, run after run: one job at a time."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from cometmq.errors import StoreLocked
from cometmq.io.files import FileLayer

LOCK: Final = "lock"


@contextmanager
def held(layer: FileLayer, target: Path, state: str) -> Iterator[Path]:
    """Keep other jobs from the target inside the block; give its directory ``state``, for what is under way.

    Raises StoreLocked if another job fills the target.
    """
    directory = target / state
    layer.make_directory(directory)
    token = layer.lock(directory / LOCK)
    if token is None:
        raise StoreLocked(f"{target} is being filled by another job: wait for it")
    try:
        yield directory
    finally:
        layer.unlock(token)
