"""Whether a broker with users lets requests pass that no user has signed: of all codes, plainly and by TLS.

    python -m tests.campaigns intruders [--requests 20000] [--connections 8] [--seed N]

Intruders send unsigned, forged, truncated and odd requests, and some that they have read on their way and
changed; each must be refused. Meanwhile a client that signs sends messages: the median and the p99 of that
are printed, without intruders and with them. In the end topics, users, acls, offsets and messages must be
what they were, and the broker's memory must not have grown.

What is left out: the same request once more, or with another code. A signature does not cover these, in
RocketMQ's protocol; only TLS does (docs/guide/security.md).
"""

import asyncio
import logging
import tempfile
from argparse import ArgumentParser, Namespace
from pathlib import Path

from tests.campaigns.clients.intruders_campaign import Campaign
from tests.campaigns.kit.options import add_numbers


def options(parser: ArgumentParser) -> None:
    """Add the options."""
    add_numbers(parser, requests=20_000, connections=8)


def main(options: Namespace) -> list[str]:
    """Run the campaign."""
    logging.disable(logging.WARNING)  # that connections are cut is what this is about
    with tempfile.TemporaryDirectory() as directory:
        campaign = Campaign(Path(directory), options.seed, options.connections)
        outcome = asyncio.run(campaign.run(options.requests))
    print(outcome)
    return outcome.faults
