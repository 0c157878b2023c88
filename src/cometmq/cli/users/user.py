"""``cometmq user``: list, show, create, change and remove users."""

from typing import Final

import click

from cometmq.admin import access
from cometmq.admin.access import KnownUser
from cometmq.cli.output import json_option, print_json, print_line, print_table
from cometmq.cli.users.options import BrokerChoice, read_password, stdin_option, target_options
from cometmq.errors import SettingsError
from cometmq.wire.bodies.access import UserInfo

TYPES: Final = {"super": "Super", "normal": "Normal"}
STATUSES: Final = {"enable": "enabled", "disable": "disabled"}

type_option = click.option(
    "--type", "user_type", type=click.Choice(list(TYPES)),
    help="A super user may do everything, a normal one what its acl allows.",
)  # fmt: skip


@click.group()
def user() -> None:
    """List, show, create, change and remove users."""


@user.command("list")
@click.option("--filter", "part", default="", metavar="TEXT", help="Only users whose name contains this.")
@target_options
@json_option
def list_users(part: str, target: BrokerChoice, as_json: bool) -> None:
    """List the users, without their passwords."""
    found = target.run(lambda cluster, broker: access.users(cluster, part, broker=broker))
    _print(found, as_json=as_json)


@user.command("show")
@click.argument("name")
@click.option("--reveal", is_flag=True, help="Show the password, too.")
@target_options
@json_option
def show(name: str, reveal: bool, target: BrokerChoice, as_json: bool) -> None:
    """Show the user NAME; what differs between brokers, on several lines."""
    found = target.run(lambda cluster, broker: access.find_user(cluster, name, broker=broker))
    _print(found, as_json=as_json, reveal=reveal)


@user.command("add")
@click.argument("name")
@type_option
@stdin_option
@target_options
@json_option
def add(name: str, user_type: str | None, password_stdin: bool, target: BrokerChoice, as_json: bool) -> None:
    """Create the user NAME, a normal one by default; asks for its password."""
    kind = user_type or "normal"
    info = UserInfo(name, read_password(from_stdin=password_stdin), TYPES[kind])
    brokers = target.run(lambda cluster, broker: access.add_user(cluster, info, broker=broker))
    if as_json:
        print_json({"user": name, "type": kind, "brokers": brokers})
    else:
        print_line(f"user {name}: {kind}, on {', '.join(brokers)}")


@user.command("update")
@click.argument("name")
@click.option("--password", is_flag=True, help="Ask for a new password.")
@stdin_option
@type_option
@click.option("--enable/--disable", "enabled", default=None, help="Whether it may do anything at all.")
@target_options
@json_option
def update(
    name: str,
    password: bool,
    password_stdin: bool,
    user_type: str | None,
    enabled: bool | None,
    target: BrokerChoice,
    as_json: bool,
) -> None:
    """Change the password, the type or the status of the user NAME; it holds from the next request on."""
    info = UserInfo(name)
    if password or password_stdin:
        info.password = read_password(from_stdin=password_stdin)
    if user_type is not None:
        info.user_type = TYPES[user_type]
    if enabled is not None:
        info.user_status = "enable" if enabled else "disable"
    if info == UserInfo(name):
        raise SettingsError("nothing to change: give --password, --type, --enable or --disable")
    brokers = target.run(lambda cluster, broker: access.update_user(cluster, info, broker=broker))
    if as_json:
        print_json({"user": name, "brokers": brokers})
    else:
        print_line(f"user {name}: changed on {', '.join(brokers)}")


@user.command("remove")
@click.argument("name")
@target_options
@json_option
def remove(name: str, target: BrokerChoice, as_json: bool) -> None:
    """Remove the user NAME and its acl."""
    brokers = target.run(lambda cluster, broker: access.remove_user(cluster, name, broker=broker))
    if as_json:
        print_json({"user": name, "removed_from": brokers})
    else:
        print_line(f"user {name}: removed from {', '.join(brokers)}")


def _print(found: list[KnownUser], *, as_json: bool, reveal: bool = False) -> None:
    lines = [_line(known, reveal=reveal) for known in found]
    if as_json:
        print_json([line | {"brokers": known.brokers} for line, known in zip(lines, found, strict=True)])
        return
    rows = [(*line.values(), ", ".join(known.brokers)) for line, known in zip(lines, found, strict=True)]
    print_table(("user", "type", "status", *(["password"] if reveal else []), "brokers"), rows)


def _line(known: KnownUser, *, reveal: bool) -> dict[str, str]:
    info = known.user
    line = {
        "user": info.username or "",
        "type": (info.user_type or "").lower(),
        "status": STATUSES.get(info.user_status or "", ""),
    }
    return line | {"password": info.password or ""} if reveal else line
