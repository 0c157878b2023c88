"""What each flush strategy may lose, and what it was seen to lose: a table, from three campaigns.

    python -m tests.campaigns durability [--kills 50] [--states 5000] [--images 100] [--seed N] [--only TEXT]

For each strategy on each write path: real brokers are killed under load (``kills``), losses of power are
made up from all that a store did to its disk (``power_loss``), and copies of a real file system's disk are
recovered (``disk_images``, where loop mounts work). With 0 a campaign is left out. ``--only`` takes a part of
a strategy's name, such as ``SYNC_FLUSH, mapped``. A broken promise ends the run; its seed shows it again.
"""

import itertools
import logging
import time
from argparse import ArgumentParser, Namespace
from typing import Final

from tests.campaigns.kit.progress import print_row
from tests.campaigns.storage import disk_images, kills, power_loss
from tests.campaigns.storage.strategies import STRATEGIES, Strategy

HEAD: Final = ("flush strategy", "write path", "fault", "may be lost", "must not be lost", "measured")
NOTHING: Final = ("nothing", "what was acknowledged")
UNCOMMITTED: Final = ("what was acknowledged since the last commit, 0.2 s", "what was committed")
UNFLUSHED: Final = ("what was acknowledged since the last sync, 0.5 s", "what was synced")


def options(parser: ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--kills", type=int, default=50, help="kills per strategy and write path")
    parser.add_argument("--states", type=int, default=5_000, help="states of a recorded disk, for each")
    parser.add_argument("--images", type=int, default=100, help="copies of a real disk, for each")
    parser.add_argument("--only", default="", help="a part of a strategy's name")


def main(options: Namespace) -> list[str]:
    """Run the campaigns; print each result as it comes, as a row of a Markdown table."""
    logging.disable(logging.CRITICAL)  # each loss of power is worth many warnings
    print_row(*HEAD)
    print_row(*["---"] * len(HEAD))
    why_not = disk_images.why_not() if options.images else None
    for strategy in STRATEGIES:
        if options.only not in strategy.name:
            continue
        names = strategy.flush, strategy.path
        after_kill = UNCOMMITTED if strategy.has_pool else NOTHING
        after_power_loss = NOTHING if strategy.is_sync else UNFLUSHED
        if options.kills:
            measured = _killed(strategy, options.seed, options.kills)
            print_row(*names, "process killed", *after_kill, measured)
        if options.states:
            measured = _lost_power(strategy, options.seed, options.states)
            print_row(*names, "power lost, recorded disk", *after_power_loss, measured)
        if options.images:
            measured = why_not or _disk_copied(strategy, options.seed, options.images)
            print_row(*names, "power lost, ext4", *after_power_loss, measured)
    return []


def _killed(strategy: Strategy, seed: int, cycles: int) -> str:
    return f"{cycles:,} kills: {kills.campaign(strategy, seed, cycles)}"


def _lost_power(strategy: Strategy, seed: int, count: int) -> str:
    begin = time.monotonic()
    outcomes = list(itertools.islice(power_loss.campaign(strategy, seed), count))
    rate = count / (time.monotonic() - begin)
    acknowledged = sum(outcome.acknowledged for outcome in outcomes)
    lost = sum(outcome.lost for outcome in outcomes)
    again = sum(outcome.again for outcome in outcomes)
    states = f"{count:,} states ({again:,} of a store that was recovering or just had)"
    return f"{states}: of {acknowledged:,} acknowledged {lost:,} lost; {rate:.0f} states/s"


def _disk_copied(strategy: Strategy, seed: int, cycles: int) -> str:
    *_, outcome = disk_images.campaign(strategy, seed, cycles)
    return f"{cycles:,} copies: {outcome}"
