"""``cometmq replica``: masters and slaves."""

from typing import Any, Final

import click

from cometmq.admin.replicas import ReplicaLine, replicas
from cometmq.cli.cluster_session import run_in_cluster
from cometmq.cli.main import EXIT_FAILED
from cometmq.cli.output import json_option, namesrv_option, print_json, print_line, print_table

COLUMNS: Final = ("broker", "id", "address", "role", "log end", "behind", "slaves", "in sync")


@click.group()
def replica() -> None:
    """Show masters and slaves."""


@replica.command()
@namesrv_option
@json_option
@click.pass_context
def status(context: click.Context, namesrv: str, as_json: bool) -> None:
    """List the brokers, how far each log has come, and how many slaves a master has.

    ``behind`` is in bytes: what a slave lacks of its master's log, or what the last of a master's slaves has
    not acknowledged. Exit code 1 if a broker does not answer or does not replicate, with the reason.
    """
    lines = run_in_cluster(namesrv, replicas)
    if as_json:
        print_json([_fields(line) for line in lines])
    else:
        print_table(COLUMNS, map(_row, lines))
    troubled = [line for line in lines if line.problem is not None]
    for line in troubled:
        print_line(f"error: {line.broker_name} at {line.address}: {line.problem}", err=True)
    if troubled:
        context.exit(EXIT_FAILED)


def _row(line: ReplicaLine) -> list[str]:
    return ["-" if cell is None else str(cell) for cell in line[: len(COLUMNS)]]


def _fields(line: ReplicaLine) -> dict[str, Any]:
    connected = [slave._asdict() | {"behind_s": slave.behind_s} for slave in line.connected]
    return line._asdict() | {"connected": connected}
