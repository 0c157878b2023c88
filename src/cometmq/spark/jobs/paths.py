"""Paths as Spark takes them, and what is told by them."""

from importlib.util import find_spec
from pathlib import Path
from typing import Final

from cometmq.errors import SettingsError

DELTA_LOG: Final = "_delta_log"
"""What makes a directory a Delta table."""


def spark_path(path: Path) -> str:
    """Give an absolute path for Spark, which takes names as they are: ``Path.as_uri`` would escape some."""
    return f"file://{path}"


def check_delta_package() -> None:
    """Raise SettingsError if Delta's package, an extra, is not there."""
    if find_spec("deltalake") is None:
        raise SettingsError("the package deltalake is not installed: pip install 'cometmq[delta]'")
