"""Campaigns: runs of minutes to hours that break what they can, and judge what was promised.

    python -m tests.campaigns --list
    python -m tests.campaigns NAME [options]

``NAME --help`` says what a campaign does, and its options. Each begins with its seed, which repeats it, and
ends with what is wrong and exit code 1, or with how long it took.
"""

import argparse
import ast
import random
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Final

from tests.campaigns.kit.processes import take_sigterm_for_ctrl_c

CAMPAIGNS: Final = {
    "durability": "storage.durability",
    "damage": "storage.damage",
    "failover": "sets.failover",
    "partitions": "sets.partitions",
    "replicas": "sets.replicas",
    "power": "sets.power",
    "rebalance": "clients.rebalance",
    "idempotence": "clients.idempotence",
    "proxies": "clients.proxies",
    "intruders": "clients.intruders",
    "soak": "clients.soak",
    "splits": "spark.splits",
    "streams": "spark.streams",
    "stream-brokers": "spark.stream_brokers",
    "sinks": "spark.sinks",
    "remotes": "spark.remotes",
    "queues": "spark.queues",
    "clusters": "spark.clusters",
    "servers": "pages.servers",
    "dists": "pages.dists",
    "console": "pages.console_tour.campaign",
    "console-sheets": "pages.console_tour.sheets",
    "report": "pages.report",
}
"""By their names the modules, below this package.

Each has ``options(parser)``, which adds its options, and ``main(options)``, which returns what is wrong. Of
what only a peer that has vanished is worth, warnings, nothing is logged: a campaign may ask for more.
"""


def main(arguments: Sequence[str]) -> None:
    """Run the campaign of the first argument, or list all."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.campaigns",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--list", action="store_true", help="print the names, and what each campaign does")
    parser.add_argument("name", nargs="?", choices=CAMPAIGNS, metavar="NAME")
    own = parser.parse_args(arguments[:1])
    if own.name is None:
        for name, module in CAMPAIGNS.items():
            print(f"{name:15} {subject(module)}")
        return
    run(own.name, arguments[1:])


def run(name: str, arguments: Sequence[str]) -> None:
    """Run a campaign, and exit with 1 if something is wrong."""
    take_sigterm_for_ctrl_c()
    campaign = import_module(f"tests.campaigns.{CAMPAIGNS[name]}")
    parser = argparse.ArgumentParser(
        prog=f"python -m tests.campaigns {name}",
        description=campaign.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    campaign.options(parser)
    options = parser.parse_args(arguments)
    print(name, *(f"{option}={value}" for option, value in vars(options).items()), flush=True)
    begin = time.monotonic()
    wrong = campaign.main(options)
    if wrong:
        sys.exit("\n".join(["FAILED:", *wrong]))
    print(f"nothing is wrong, {time.monotonic() - begin:.0f} s")


def subject(module: str) -> str:
    """Return the first line of a campaign's docstring, without importing it: that may take seconds."""
    path = Path(__file__).parent.joinpath(*module.split(".")).with_suffix(".py")
    docstring = ast.get_docstring(ast.parse(path.read_text()))
    assert docstring is not None
    return docstring.partition("\n")[0]


if __name__ == "__main__":
    main(sys.argv[1:])
