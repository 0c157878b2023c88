"""``cometmq acl``: list, show, change and remove what users may do, and check whether one may."""

from collections.abc import Sequence

import click

from cometmq.admin import access
from cometmq.admin.access import ACTIONS, EntryLine, KnownAcl, KnownVerdict
from cometmq.cli.main import EXIT_FAILED
from cometmq.cli.output import json_option, print_json, print_line, print_table
from cometmq.cli.users.options import BrokerChoice, target_options
from cometmq.wire.bodies.access import PolicyEntryInfo
from cometmq.wire.bodies.body import to_plain

default_option = click.option(
    "--default", "is_default", is_flag=True,
    help="The default policy, which holds where the user's own one says nothing.",
)  # fmt: skip


@click.group()
def acl() -> None:
    """List, show, change and remove what users may do, and check whether one may."""


@acl.command("list")
@click.option("--user", "user_part", default="", metavar="TEXT", help="Only users whose name contains this.")
@click.option("--resource", default="", metavar="TEXT", help="Only entries whose resource contains this.")
@target_options
@json_option
def list_acls(user_part: str, resource: str, target: BrokerChoice, as_json: bool) -> None:
    """List the acls of all users, a line for each entry."""
    found = target.run(lambda cluster, broker: access.acls(cluster, user_part, resource, broker=broker))
    _print(found, as_json=as_json)


@acl.command("show")
@click.argument("user")
@target_options
@json_option
def show(user: str, target: BrokerChoice, as_json: bool) -> None:
    """Show the acl of USER, a line for each entry."""
    found = target.run(lambda cluster, broker: access.find_acl(cluster, user, broker=broker))
    if found or as_json:
        _print(found, as_json=as_json)
    else:
        print_line(f"user {user} has no acl: it may do nothing, unless it is a super user")


@acl.command("add")
@click.argument("user")
@click.argument("resource")
@click.argument(
    "actions",
    nargs=-1,
    required=True,
    metavar="ACTIONS...",
    type=click.Choice(ACTIONS, case_sensitive=False),
)
@click.option("--from", "sources", multiple=True, metavar="ADDRESS", help="Only from this address or CIDR.")
@click.option("--deny", is_flag=True, help="Forbid it, instead of allowing it.")
@default_option
@target_options
@json_option
def add(
    user: str,
    resource: str,
    actions: tuple[str, ...],
    sources: tuple[str, ...],
    deny: bool,
    is_default: bool,
    target: BrokerChoice,
    as_json: bool,
) -> None:
    """Allow USER these ACTIONS on RESOURCE; replaces the entry of the same RESOURCE.

    RESOURCE is such as Topic:orders, Topic:orders-*, Group:billing, Cluster:DefaultCluster, Topic:* or *.
    ACTIONS are All, Pub, Sub, Create, Update, Delete, Get, List.
    """
    access.parse_resource(resource)
    decision = "Deny" if deny else "Allow"
    entry = PolicyEntryInfo(resource, list(dict.fromkeys(actions)), list(sources) or None, decision)
    policy = "Default" if is_default else "Custom"
    brokers = target.run(
        lambda cluster, broker: access.add_entry(cluster, user, entry, policy_type=policy, broker=broker)
    )
    line = EntryLine(user, policy, resource, entry.actions, list(sources), decision, brokers)
    if as_json:
        print_json(line._asdict())
    else:
        print_line(
            f"user {user}: {decision} {', '.join(entry.actions)} on {resource}"
            f"{_from(sources)}, on {', '.join(brokers)}"
        )


@acl.command("remove")
@click.argument("user")
@click.argument("resource", required=False)
@default_option
@target_options
@json_option
def remove(user: str, resource: str | None, is_default: bool, target: BrokerChoice, as_json: bool) -> None:
    """Remove the entry of RESOURCE from the acl of USER; without RESOURCE the whole acl."""
    if resource is not None:
        access.parse_resource(resource)
    policy = "Default" if is_default else "Custom"
    brokers = target.run(
        lambda cluster, broker: access.remove_entry(
            cluster, user, resource, policy_type=policy, broker=broker
        )
    )
    if as_json:
        print_json({"user": user, "resource": resource, "removed_from": brokers})
    else:
        what = "its acl" if resource is None else resource
        print_line(f"user {user}: {what} removed from {', '.join(brokers)}")


@acl.command("check")
@click.argument("user")
@click.argument("action", type=click.Choice(ACTIONS[1:], case_sensitive=False))
@click.argument("resource")
@click.option(
    "--from", "address", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Its address."
)
@target_options
@json_option
def check(user: str, action: str, resource: str, address: str, target: BrokerChoice, as_json: bool) -> None:
    """Check whether USER may do ACTION on RESOURCE, and show the entry that decides.

    RESOURCE is one topic, group or cluster: Topic:orders, Group:billing, Cluster:DefaultCluster. Ends with 1
    if a broker refuses it.
    """
    need, source = access.parse_need(action, resource), access.parse_source(address, option="--from")
    found = target.run(lambda cluster, broker: access.verdicts(cluster, user, need, source, broker=broker))
    if as_json:
        print_json([_plain(verdict) for verdict in found])
    else:
        for verdict in found:
            print_line(_sentence(verdict, f"{user} may {action} {resource} from {address}"))
    if any(verdict.refusal is not None for verdict in found):
        raise click.exceptions.Exit(EXIT_FAILED)


def _print(found: list[KnownAcl], *, as_json: bool) -> None:
    lines = access.entry_lines(found)
    if as_json:
        print_json([line._asdict() for line in lines])
        return
    rows = [
        (
            *(line.user, line.policy, line.resource, ", ".join(line.actions)),
            *(", ".join(line.sources) or "anywhere", line.decision, ", ".join(line.brokers)),
        )
        for line in lines
    ]
    print_table(("user", "policy", "resource", "actions", "from", "decision", "brokers"), rows)


def _plain(verdict: KnownVerdict) -> dict[str, object]:
    entry = verdict.entry
    return {
        "allowed": verdict.refusal is None,
        "refusal": verdict.refusal,
        "policy": verdict.policy,
        "entry": None if entry is None else to_plain(entry),
        "brokers": verdict.brokers,
    }


def _sentence(verdict: KnownVerdict, allowed: str) -> str:
    """Return what is decided, why, and by which brokers."""
    entry = verdict.entry
    if entry is not None:
        why = (
            f"{verdict.policy} policy: {entry.decision} {', '.join(entry.actions)} on {entry.resource}"
            f"{_from(entry.source_ips or ())}"
        )
    elif verdict.refusal is None:
        why = "it is a super user"
    else:
        why = "no entry decides"
    brokers = ", ".join(verdict.brokers)
    return f"{verdict.refusal or allowed + '.'} [{why}; on {brokers}]"


def _from(sources: Sequence[str]) -> str:
    return f" from {', '.join(sources)}" if sources else ""
