"""The examples run as they stand, each as a process of its own, and come to what they are about."""

import subprocess
import sys
from pathlib import Path

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))
SAYS = {
    "store_append.py": "on the disk up to offset",
    "store_find.py": "found again by both its ids: True",
    "store_read.py": "since yesterday: 10001",
    "store_rebuild.py": "the store is sound",
    "store_recover.py": "all that was told is there: True",
}
"""In the order in which they run, in one directory."""
PATIENCE_S = 60


def test_the_examples_do_what_they_say(tmp_path: Path) -> None:
    assert sorted(SAYS) == [path.name for path in EXAMPLES]
    for path, words in zip(EXAMPLES, SAYS.values(), strict=True):
        command = [sys.executable, "-W", "error", str(path)]
        ran = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        assert ran.returncode == 0, ran.stderr
        assert words in ran.stdout
