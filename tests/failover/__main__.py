"""Failover by RocketMQ's own controller: the master is killed under load, and nothing acknowledged is lost.

    python -m tests.failover [--kills 30] [--seed N] [--beside 10]

Two brokers, one of each product, have the same name; the controller elects the other one after each kill.
Sends are acknowledged by all brokers in sync. ``--beside`` is for how many kills the same is done with two
brokers of RocketMQ's, for its times; 0 leaves that out. A broken promise ends the run with exit code 1.
"""

import asyncio
import logging
import sys

from tests.campaigns import options_parser
from tests.failover.campaign import Outcome, campaign


def main() -> None:
    """Run the campaigns; print each kill, then what was found."""
    options = options_parser("tests.failover", __doc__, kills=30, beside=10).parse_args()
    logging.disable(logging.WARNING)  # that peers vanish is what this is about
    print(f"seed {options.seed}")
    mixed = run(("cometmq", "rocketmq"), options.seed, options.kills)
    if options.beside:
        run(("rocketmq", "rocketmq"), options.seed, options.beside)
    sys.exit(bool(mixed.verdict.lost or mixed.verdict.disordered))


def run(kinds: tuple[str, str], seed: int, kills: int) -> Outcome:
    """Run one campaign, and print what it has found."""
    print(f"{kinds[0]} and {kinds[1]}:")
    outcome = asyncio.run(campaign(kinds, seed, kills, lambda text: print(text, flush=True)))
    print(f"{kills} kills: {outcome}", flush=True)
    return outcome


if __name__ == "__main__":
    main()
