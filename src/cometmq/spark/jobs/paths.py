"""Paths as Spark takes them, and what is told by them."""

from pathlib import Path
from typing import Final

from cometmq.extras import require

DELTA_LOG: Final = "_delta_log"
"""What makes a directory a Delta table."""


def spark_path(path: Path) -> str:
    """Give an absolute path for Spark, which takes names as they are: ``Path.as_uri`` would escape some."""
    return f"file://{path}"


def check_delta_package() -> None:
    """Raise MissingExtra if Delta's package is not there."""
    require("delta", "a Delta table")
