"""Campaigns end with their processes, whoever ends them."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

IN_BACKGROUND = ("sh", "-c", "trap '' INT; exec \"$@\"", "sh")
"""Starts a command as shells start what does not hold the terminal."""
CAMPAIGN = """
import asyncio, signal, sys
from pathlib import Path
from tests.processes import BrokerProcess, take_sigterm_for_ctrl_c

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
        cwd=Path(__file__).parents[1],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as campaign:
        assert campaign.stdout is not None
        broker = int(campaign.stdout.readline())
        campaign.terminate()
        assert campaign.wait() == -signal.SIGINT
    with pytest.raises(ProcessLookupError):
        os.kill(broker, 0)
