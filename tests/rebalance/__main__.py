"""What rebalances cost, and that they lose nothing: random histories of a consumer group, lived through.

    python -m tests.rebalance [--histories 100] [--members 8] [--queues 64] [--steps 8] [--seed N] [--only X]

For each strategy, concurrent and ordered, members as processes join, leave and are killed, the topic gets
more queues, and the broker is restarted, all under load. A lost message, or an ordered queue with two
owners or out of order, ends the run; its seed shows it again. ``--only`` takes a part of a kind's name, such
as ``averagely, ordered``; an ordered history with a kill takes the minute after which its locks are free.
"""

import argparse
import asyncio
import itertools
import random
import sys
import tempfile
import time
from pathlib import Path

from tests.rebalance.campaign import live_through
from tests.rebalance.history import Size
from tests.rebalance.member import STRATEGIES

WAYS = ("concurrent", "ordered")


def main() -> None:
    """Live through the histories; print each as a row of a Markdown table."""
    options = _options()
    size = Size(options.members, options.queues, options.steps)
    print(f"seed {options.seed}, {size}\n")
    print("| history | strategy | handled | lost | two owners | disordered | duplicates | seconds |")
    print("|---" * 8 + "|")
    kinds = [kind for kind in itertools.product(STRATEGIES, WAYS) if options.only in ", ".join(kind)]
    for number, (strategy, way) in zip(range(options.histories), itertools.cycle(kinds), strict=False):
        begin = time.monotonic()
        with tempfile.TemporaryDirectory() as directory:
            seed = options.seed + number
            verdict = asyncio.run(live_through(seed, strategy, way, size, Path(directory)))
        seconds = time.monotonic() - begin
        print(
            f"| {seed} | {strategy}, {way} | {verdict.handled:,} | {len(verdict.lost)} "
            f"| {len(verdict.shared)} | {len(verdict.disordered)} | {verdict.duplicates:,} | {seconds:.0f} |",
            flush=True,
        )
        if not verdict.is_right:
            sys.exit(f"history {seed}: {verdict}"[:2_000])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.rebalance", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--histories", type=int, default=100)
    parser.add_argument("--members", type=int, default=Size().members, help="most at a time")
    parser.add_argument("--queues", type=int, default=Size().queues, help="at the beginning")
    parser.add_argument("--steps", type=int, default=Size().steps, help="of each history")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    parser.add_argument("--only", default="")
    return parser.parse_args()


if __name__ == "__main__":
    main()
