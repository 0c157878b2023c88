"""Paths as Spark takes them, and what is told by them."""

from pathlib import Path
from typing import Final

DELTA_LOG: Final = "_delta_log"
"""What makes a directory a Delta table."""


def spark_path(path: Path) -> str:
    """Give an absolute path for Spark, which takes names as they are: ``Path.as_uri`` would escape some."""
    return f"file://{path}"
