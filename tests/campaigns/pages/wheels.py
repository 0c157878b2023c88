"""Wheels of this checkout, and of earlier commits."""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.campaigns.pages.dists import ROOT, run

PAGE: Final = "docs/guide/server.md"


def build(folder: Path, source: Path = ROOT) -> Path:
    """Build the wheel of a source tree into a folder."""
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=source)
    (wheel,) = folder.glob("*.whl")
    return wheel


def build_of(commit: str, folder: Path) -> Path:
    """Build the wheel of a commit into a folder."""
    with tempfile.TemporaryDirectory() as name:
        archive = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=False)
        assert archive.returncode == 0, f"{archive.stderr.decode()}: the whole history must be here"
        subprocess.run(["tar", "-x", "-C", name], input=archive.stdout, check=True)
        return build(folder, Path(name))


def has_page(commit: str) -> bool:
    """Return whether a commit has the page, and so units and servers that notify systemd."""
    return bool(run("git", "ls-tree", "--name-only", commit, PAGE))


def first_with_page() -> str:
    """Return the commit that added the page."""
    return run("git", "log", "--diff-filter=A", "--format=%h", "--", PAGE).split()[-1]
