"""Paths as Spark takes them."""

from pathlib import Path


def spark_path(path: Path) -> str:
    """Give an absolute path for Spark, which takes names as they are: ``Path.as_uri`` would escape some."""
    return f"file://{path}"
