"""Java and CometMQ brokers as master and slave of each other, killed under load: both must have the same.

    python -m tests.campaigns replicas [--size 2GiB] [--kills 6] [--seed N] [--only cometmq]

First a Java slave follows a CometMQ master, then a CometMQ slave a Java master; ``--only`` takes the product
of the master. Messages of so many bytes are sent to each pair; meanwhile the master, the slave or both are
killed with SIGKILL and started again. In the end the CommitLogs must be equal byte by byte, with every
acknowledged message in them, the queues of both must be those that are rebuilt from the log alone, and
nothing that ``cometmq store verify`` checks may be wrong.
"""

import asyncio
import random
import tempfile
import time
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Final

from tests.campaigns.kit.options import add_numbers, size_of
from tests.campaigns.sets.replicas_pair import Pair

PAIRS: Final = (("cometmq", "rocketmq"), ("rocketmq", "cometmq"))


def options(parser: ArgumentParser) -> None:
    """Add the options."""
    add_numbers(parser, kills=6)
    parser.add_argument("--size", type=size_of, default="2GiB", help="of what is sent to each pair")
    parser.add_argument("--only", choices=[leads for leads, _ in PAIRS], help="the product of the master")


def main(options: Namespace) -> list[str]:
    """Run the campaign and print what it found."""
    chance, wrong = random.Random(options.seed), list[str]()
    for leads, follows in PAIRS:
        if options.only not in (None, leads):
            continue
        begin = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="cometmq-replicas-") as folder:
            pair = Pair(leads, follows, Path(folder), chance)
            found = asyncio.run(pair.run(options.size, options.kills))
        print(f"{pair.name}: {found}, {time.monotonic() - begin:.0f} s", flush=True)
        wrong += [f"{pair.name}: {fault}" for fault in found.wrong]
    return wrong
