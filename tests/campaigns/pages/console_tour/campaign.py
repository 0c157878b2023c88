"""Each page of the console, visited by Chromium: it must look right, and do what it offers.

    python -m tests.campaigns console

Needs Debian's package ``chromium``. Pictures of all pages are kept in ``build/console-tour``.
"""

from argparse import ArgumentParser, Namespace
from pathlib import Path

import pytest


def options(_: ArgumentParser) -> None:
    """Add nothing."""


def main(_: Namespace) -> list[str]:
    """Run the tests of this folder."""
    status = pytest.main([str(Path(__file__).parent), "-m", "browser"])
    return [] if status is pytest.ExitCode.OK else [f"pytest ended with {status!r}"]
