"""``cometmq cluster``: the brokers, and how much passes through them."""

import click

from cometmq.admin.cluster import brokers
from cometmq.cli.asking import ask
from cometmq.cli.output import json_option, namesrv_option, print_json, print_table

COLUMNS = (
    "cluster",
    "broker",
    "id",
    "address",
    "version",
    "in/s",
    "out/s",
    "in today",
    "out today",
    "disk",
    "up",
)


@click.command()
@namesrv_option
@json_option
def cluster(namesrv: str, as_json: bool) -> None:
    """List the brokers, and how many messages per second come in and go out."""
    lines = ask(namesrv, brokers)
    if as_json:
        print_json([line._asdict() for line in lines])
        return
    rows = [
        (
            *line[:5],
            f"{line.in_tps:.1f}",
            f"{line.out_tps:.1f}",
            line.in_today,
            line.out_today,
            f"{line.disk_ratio:.0%}",
            _short(line.up),
        )
        for line in lines
    ]
    print_table(COLUMNS, rows)


def _short(up: str) -> str:
    """Leave out of ``0 days, 2 hours, 0 minutes, 5 seconds`` what is 0."""
    return ", ".join(part for part in up.split(", ") if not part.startswith("0 ")) or "just started"
