"""Campaigns end with their processes, whoever ends them; and Ctrl-C ends what tests start."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
IN_BACKGROUND = ("sh", "-c", "trap '' INT; exec \"$@\"", "sh")
"""Starts a command as shells start what does not hold the terminal."""
CAMPAIGN = """
import asyncio, signal, sys
from pathlib import Path
from tests.campaigns.kit.processes import BrokerProcess, take_sigterm_for_ctrl_c

async def main():
    broker = BrokerProcess(Path(sys.argv[1]))
    await broker.start()
    try:
        print(broker.pid, flush=True)
        await asyncio.Event().wait()
    finally:
        await broker.end(signal.SIGTERM)

take_sigterm_for_ctrl_c()
asyncio.run(main())
"""


def test_a_campaign_that_is_told_to_end_leaves_no_process_behind(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*IN_BACKGROUND, sys.executable, "-c", CAMPAIGN, tmp_path],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as campaign:
        assert campaign.stdout is not None
        broker = int(campaign.stdout.readline())
        campaign.terminate()
        assert campaign.wait() == -signal.SIGINT
    with pytest.raises(ProcessLookupError):
        os.kill(broker, 0)


def test_ctrl_c_ends_what_a_test_starts() -> None:
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert subprocess.run(["sh", "-c", "kill -INT $$"], check=False).returncode == -signal.SIGINT


def test_ctrl_c_does_so_also_if_the_tests_were_started_in_the_background() -> None:
    name = f"{__file__}::{test_ctrl_c_ends_what_a_test_starts.__name__}"
    again = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", name]
    ran = subprocess.run([*IN_BACKGROUND, *again], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout
