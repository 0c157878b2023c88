"""The examples run as they stand, each as a process of its own, and come to what they are about."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.kit.programs import ASYNC, run_pytest

FOLDER = Path(__file__).parents[2] / "examples"
EXAMPLES = sorted(FOLDER.glob("*.py"))
SAYS = {
    "store_append.py": "on the disk up to offset",
    "store_find.py": "found again by both its ids: True",
    "store_read.py": "since yesterday: 10001",
    "store_rebuild.py": "the store is sound",
    "store_recover.py": "all that was told is there: True",
}
"""In the order in which they run, in one directory."""
PATIENCE_S = 60
NAMED_FILE = re.compile(r"^```python\n# (\w+\.py)\b[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_examples_do_what_they_say(tmp_path: Path) -> None:
    assert sorted(SAYS) == [path.name for path in EXAMPLES]
    for path, words in zip(EXAMPLES, SAYS.values(), strict=True):
        command = [sys.executable, "-W", "error", str(path)]
        ran = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        assert ran.returncode == 0, ran.stderr
        assert words in ran.stdout


def test_the_application_of_faststream_and_those_of_its_guide_pass_their_tests(tmp_path: Path) -> None:
    pytest.importorskip("faststream", reason="FastStream is not installed: it is in requirements.lock")
    for path in sorted((FOLDER / "faststream").glob("*.py")):
        shutil.copy(path, tmp_path)
    page = (FOLDER.parent / "docs" / "guide" / "faststream.md").read_text()
    for name, code in NAMED_FILE.findall(page):
        (tmp_path / name).write_text(code)
    assert page.count("```python") == len(NAMED_FILE.findall(page)) == 4
    ran = run_pytest(tmp_path, "-W", "error", *ASYNC)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "8 passed" in ran.stdout
