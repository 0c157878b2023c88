"""A request goes through few files, and an idle broker does little: what is added to either is seen here."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

FILES_MAX: Final = {"plain": 26, "compiled": 20}
"""Most files that one warm send, or one warm pull, goes through."""
IDLE_CALLS_MAX: Final = 100
"""Most calls of the package's functions in a second of an idle broker."""


def test_a_send_and_a_pull_go_through_few_files_and_an_idle_broker_makes_few_calls() -> None:
    command = (sys.executable, "-m", "benches.trace_requests", "--idle-s", "5")
    project = Path(__file__).parents[2]
    text = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=project, timeout=300
    ).stdout
    rows = re.findall(r"^(send|pull), (\w+) .* (\d+)$", text, re.MULTILINE)
    assert len(rows) == 4, text
    too_many = [row for row in rows if int(row[2]) > FILES_MAX[row[1]]]
    assert too_many == [], text
    idle = re.search(r"^idle broker: (\d+) calls", text, re.MULTILINE)
    assert idle is not None and int(idle[1]) <= IDLE_CALLS_MAX, text
