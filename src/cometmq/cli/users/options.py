"""What the commands for users and acls share: the broker to ask, and how a password comes in."""

import functools
import sys
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

import click

from cometmq.admin.cluster import ClusterAdmin
from cometmq.cli.cluster_session import run_in_cluster
from cometmq.cli.output import namesrv_option
from cometmq.errors import SettingsError

ResultT = TypeVar("ResultT")

stdin_option = click.option(
    "--password-stdin", is_flag=True, help="Read the password from standard input: its first line."
)


class BrokerChoice(NamedTuple):
    """The brokers that a command is for.

    Attributes:
        broker: the address of the only one; None for all that the name server knows.
    """

    namesrv: str
    broker: str | None

    def run(self, work: Callable[[ClusterAdmin, str | None], Awaitable[ResultT]]) -> ResultT:
        """Call ``work`` with a connected ClusterAdmin and ``broker``, and return its result."""
        return run_in_cluster(self.namesrv, lambda cluster: work(cluster, self.broker))


def target_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options ``--broker`` and ``--namesrv``, which the command gets as ``target``."""

    @click.option(
        "-b",
        "--broker",
        metavar="HOST:PORT",
        help="Only this broker; by default all of the cluster, slaves too.",
    )
    @namesrv_option
    @functools.wraps(command)
    def with_target(*args: object, namesrv: str, broker: str | None, **more: object) -> None:
        command(*args, target=BrokerChoice(namesrv, broker), **more)

    return with_target


def read_password(*, from_stdin: bool) -> str:
    """Ask for a password twice, without showing it, or read the first line of standard input.

    Raises SettingsError if it is empty, or if there is no terminal to ask at.
    """
    if from_stdin:
        password = sys.stdin.readline().rstrip("\r\n")
    elif sys.stdin.isatty():
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        raise SettingsError("standard input is no terminal to ask for the password: use --password-stdin")
    if not password:
        raise SettingsError("the password is empty: give at least one character")
    return str(password)
