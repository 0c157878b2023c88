"""Users of the cluster and what they may do: list, show, create, change, remove and check them."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from starlette.responses import Response

from cometmq.admin import access
from cometmq.admin.tolerant import TolerantAdmin
from cometmq.console.visit import Visit
from cometmq.errors import SettingsError
from cometmq.wire.bodies.access import PolicyEntryInfo, UserInfo

TYPES: Final = ("Normal", "Super")
STATUSES: Final = ("enable", "disable")
DECISIONS: Final = ("Allow", "Deny")
POLICIES: Final = ("Custom", "Default")
TICK: Final = "action."
"""Begins the names of the form's fields for actions."""
NOBODY: Final = "127.0.0.1"
"""The address that a check asks for if none is given."""


async def users(visit: Visit) -> Response:
    """Show the users, and how many entries their acls have."""
    cluster, part = TolerantAdmin(visit.cluster), visit.text("find")
    found, acls = await asyncio.gather(access.users(cluster, part), access.acls(cluster, part))
    return visit.page(
        "users.html",
        here="/users",
        users=found,
        entries=Counter(line.user for line in access.entry_lines(acls)),
        find=part,
        types=TYPES,
        removed=visit.text("removed"),
        troubles=cluster.troubles,
    )


async def user(visit: Visit) -> Response:
    """Show one user with its acl, and whether it may do what the form asks for."""
    cluster, name = TolerantAdmin(visit.cluster), visit.part("user")
    found = await access.find_user(cluster, name)
    acl = await access.find_acl(cluster, name)
    query = {part: visit.text(part) for part in ("action", "resource", "address")}
    verdicts = None
    if query["resource"]:
        need = access.parse_need(query["action"], query["resource"])
        source = access.parse_source(query["address"] or NOBODY, "address")
        verdicts = await access.verdicts(cluster, name, need, source)
    return visit.page(
        "user.html",
        here="/users",
        name=name,
        users=found,
        entries=access.entry_lines(acl),
        query=query,
        verdicts=verdicts,
        changed=visit.text("changed"),
        choices={
            "types": TYPES, "statuses": STATUSES, "decisions": DECISIONS, "policies": POLICIES,
            "actions": access.ACTIONS, "resources": access.RESOURCES,
        },
        troubles=cluster.troubles,
    )  # fmt: skip


async def add(visit: Visit) -> Response:
    """Create the user of the form."""
    name, password = _text(visit, "name"), visit.form.get("password", "")
    if not name or not password:
        raise SettingsError("give the name of the user, and its password")
    await access.add_user(visit.cluster, UserInfo(name, password, _choice(visit.form, "type", TYPES)))
    return visit.go_to(_page(name), changed="created")


async def change(visit: Visit) -> Response:
    """Change the type and status of a user, and its password if there is a new one."""
    name = visit.part("user")
    info = UserInfo(
        name,
        visit.form.get("password") or None,
        _choice(visit.form, "type", TYPES),
        _choice(visit.form, "status", STATUSES),
    )
    await access.update_user(visit.cluster, info)
    return visit.go_to(_page(name), changed="changed")


async def remove(visit: Visit) -> Response:
    """Remove a user and its acl."""
    name = visit.part("user")
    await access.remove_user(visit.cluster, name)
    return visit.go_to("/users", removed=name)


async def add_entry(visit: Visit) -> Response:
    """Add an entry to the acl of a user, or replace that of the same resource."""
    name, resource = visit.part("user"), _text(visit, "resource")
    access.parse_resource(resource)
    actions = [action for action in access.ACTIONS if visit.form.get(TICK + action) == "1"]
    if not actions:
        raise SettingsError(f"tick at least one of {', '.join(access.ACTIONS)}")
    sources = _text(visit, "sources").split() or None
    entry = PolicyEntryInfo(resource, actions, sources, _choice(visit.form, "decision", DECISIONS))
    await access.add_entry(visit.cluster, name, entry, policy_type=_choice(visit.form, "policy", POLICIES))
    return visit.go_to(_page(name), changed="stored")


async def remove_entry(visit: Visit) -> Response:
    """Remove the entry of a resource from the acl of a user."""
    name, resource = visit.part("user"), _text(visit, "resource")
    if not resource:  # without one the whole acl would go
        raise SettingsError("give the resource whose entry to remove")
    await access.remove_entry(
        visit.cluster, name, resource, policy_type=_choice(visit.form, "policy", POLICIES)
    )
    return visit.go_to(_page(name), changed="removed")


def _page(name: str) -> str:
    return f"/users/{quote(name, safe='')}"


def _text(visit: Visit, name: str) -> str:
    return visit.form.get(name, "").strip()


def _choice(form: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    value = form.get(name, choices[0])
    if value not in choices:
        raise SettingsError(f"{name} {value[:30]!r}: give one of {', '.join(choices)}")
    return value
