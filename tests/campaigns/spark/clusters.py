"""Executors that are processes of their own must read and rebuild what one process reads and rebuilds.

    python -m tests.campaigns clusters [--master MASTER]

Without a master all of this is done on ``local-cluster[2,1,1024]``, then on a standalone cluster, whose
master and worker are started by Spark's own scripts. What a program does there is in
``clusters_driver.py``. Then a client of Spark Connect runs the guide's page on it, with a server that
Spark's own script starts.
"""

import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Final

from tests.campaigns.spark import connect, standalone

LOCAL: Final = "local-cluster[2,1,1024]"
STANDALONE: Final = "standalone"
CONNECT: Final = "connect"


def options(parser: ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--master", action="append", help=f"{LOCAL}, {STANDALONE}, {CONNECT}, or one that runs already"
    )


def main(options: Namespace) -> list[str]:
    """Run the driver on each kind of cluster, and print what it says."""
    for master in options.master or (LOCAL, STANDALONE, CONNECT):
        with tempfile.TemporaryDirectory(prefix="cometmq-clusters-") as folder:
            begin = time.monotonic()
            said = run(master, Path(folder))
            print(f"{master}: {said}, {time.monotonic() - begin:.0f} s", flush=True)
    return []


def run(master: str, folder: Path) -> str:
    """Run the driver on a cluster, started for it if need be; give what it says. Raises if it fails."""
    if master == STANDALONE:
        with standalone.cluster(folder) as url:
            return run(url, folder)
    if master == CONNECT:
        with connect.server(folder) as address:
            return f"{connect.run_page(address, folder)} programs of {connect.PAGE.name}"
    command = [sys.executable, "-m", "tests.campaigns.spark.clusters_driver", master, str(folder / "driver")]
    with (folder / "driver.log").open("w+") as log:
        ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=log, text=True, check=False)
        log.seek(0)
        assert ran.returncode == 0, log.read()
    return ran.stdout.strip()
