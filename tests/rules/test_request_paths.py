"""A request goes through few files, and an idle broker does little: what is added to either is seen here."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

FILES_MAX: Final = {"plain": 24, "compiled": 18}
"""Most files that one warm send, pull or query goes through."""
ACK_FILES_MAX: Final = {"plain": 34, "compiled": 30}
"""The same of an acknowledgement: what it stores is a record, appended as a message is."""
IDLE_CALLS_MAX: Final = 100
"""Most calls of the package's functions in a second of an idle broker."""


def test_a_request_goes_through_few_files_and_an_idle_broker_makes_few_calls() -> None:
    command = (sys.executable, "-m", "benches.trace_requests", "--idle-s", "5")
    project = Path(__file__).parents[2]
    text = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=project, timeout=300
    ).stdout
    rows = re.findall(r"^(send|pull|query|ack), (\w+) .* (\d+)$", text, re.MULTILINE)
    assert len(rows) == 8, text
    limits = {"ack": ACK_FILES_MAX}
    too_many = [row for row in rows if int(row[2]) > limits.get(row[0], FILES_MAX)[row[1]]]
    assert too_many == [], text
    idle = re.search(r"^idle broker: (\d+) calls", text, re.MULTILINE)
    assert idle is not None and int(idle[1]) <= IDLE_CALLS_MAX, text
