"""``cometmq cluster``: the brokers, and their throughput."""

from typing import Final

import click

from cometmq.admin.cluster import BrokerLine, brokers
from cometmq.admin.tolerant import Trouble
from cometmq.cli.cluster_session import run_in_cluster
from cometmq.cli.output import (
    exit_if_troubled,
    json_option,
    namesrv_option,
    print_json,
    print_line,
    print_table,
)

COLUMNS = (
    "cluster",
    "broker",
    "id",
    "address",
    "version",
    "in/s",
    "deliveries/s",
    "in today",
    "out today",
    "disk",
    "up",
    "kernels",
)
FORMATS: Final = {"in_tps": ".1f", "deliveries_per_s": ".1f", "disk_ratio": ".0%"}


@click.command()
@namesrv_option
@json_option
def cluster(namesrv: str, as_json: bool) -> None:
    """List the brokers with the messages per second that they receive and deliver.

    A broker that does not answer, refuses, or answers what cannot be read is listed with what the name server
    knows of it; exit code 1. For a broker that accepts no messages, whose disk refuses writes, or that
    strangers can use, a warning gives the reason.
    """
    lines = run_in_cluster(namesrv, brokers)
    if as_json:
        print_json([line._asdict() for line in lines])
    else:
        print_table(COLUMNS, map(_row, lines))
    for line in lines:
        if line.warning is not None:
            print_line(f"warning: {line.broker_name} at {line.address}: {line.warning}", err=True)
    exit_if_troubled([Trouble(one.broker_name, one.address, one.trouble) for one in lines if one.trouble])


def _row(line: BrokerLine) -> list[str]:
    cells = line._asdict() | {"up": None if line.up is None else _short(line.up)}
    if line.cometmq is not None:
        cells["version"] = f"CometMQ {line.cometmq}"
    cells["kernels"] = line.kernels and line.kernels.partition(":")[0]  # only --json shows the reason
    del cells["trouble"], cells["warning"], cells["cometmq"]
    return ["-" if cell is None else format(cell, FORMATS.get(name, "")) for name, cell in cells.items()]


def _short(up: str) -> str:
    """Remove the zero parts of ``0 days, 2 hours, 0 minutes, 5 seconds``."""
    return ", ".join(part for part in up.split(", ") if not part.startswith("0 ")) or "just started"
