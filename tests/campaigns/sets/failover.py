"""Failover by RocketMQ's own controller: the master is killed under load, and nothing acknowledged is lost.

    python -m tests.campaigns failover [--kills 30] [--seed N] [--beside 10]

Two brokers, one of each product, have the same name; the controller elects the other one after each kill.
Sends are acknowledged by all brokers in sync. ``--beside`` is for how many kills the same is done with two
brokers of RocketMQ's, for its times; 0 leaves that out. A broken promise ends the run with exit code 1.
"""

import asyncio
import logging
from argparse import ArgumentParser, Namespace

from tests.campaigns.kit.options import add_numbers
from tests.campaigns.sets.failover_campaign import Outcome, campaign


def options(parser: ArgumentParser) -> None:
    """Add the options."""
    add_numbers(parser, kills=30, beside=10)


def main(options: Namespace) -> list[str]:
    """Run the campaigns; print each kill, then what was found."""
    logging.disable(logging.WARNING)  # that peers vanish is what this is about
    mixed = run(("cometmq", "rocketmq"), options.seed, options.kills)
    if options.beside:
        run(("rocketmq", "rocketmq"), options.seed, options.beside)
    return [str(mixed)] if mixed.verdict.lost or mixed.verdict.disordered else []


def run(kinds: tuple[str, str], seed: int, kills: int) -> Outcome:
    """Run one campaign, and print what it has found."""
    print(f"{kinds[0]} and {kinds[1]}:")
    outcome = asyncio.run(campaign(kinds, seed, kills, lambda text: print(text, flush=True)))
    print(f"{kills} kills: {outcome}", flush=True)
    return outcome
