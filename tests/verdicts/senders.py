"""The senders of the table of verdicts: who they claim to be, and what their policies allow.

For each set of permissions that a request may need there is one user of each kind, whose policies are made
from that set: so a user with the right policy has nothing else.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from tests.kit.request_bodies import GROUP, TOPIC

from cometmq.wire.acl import Credentials
from cometmq.wire.bodies.access import AclInfo, PolicyEntryInfo, PolicyInfo
from cometmq.wire.requests import Access, Action, Resource

CLUSTER: Final = "DefaultCluster"
NAMES: Final = {Resource.TOPIC: TOPIC, Resource.GROUP: GROUP, Resource.CLUSTER: CLUSTER}
"""What requests name."""
PREFIX_LENGTH: Final = 1
PASSWORD: Final = "the secret of all"
DISABLED_USER: Final = "disabled"
ELSEWHERE_SOURCE: Final = "192.0.2.0/24"
"""Addresses of documentation (RFC 5737): no sender has one."""

Wanted = tuple[Access, ...]
"""The permissions that a request needs, all of them."""


class Sender(StrEnum):
    """A kind of sender, by its name in the table."""

    NOBODY = "no credentials"
    UNKNOWN = "unknown user"
    FORGER = "wrong secret"
    DISABLED = "disabled user"
    BARE = "no policy"
    EXACT = "right policy"
    PREFIX = "… by a prefix"
    ANY = "… for `*`"
    PARTIAL = "… but for one"
    OTHER = "other actions"
    DENIED = "denied"
    ELSEWHERE = "elsewhere"
    SUPER = "super"


STRANGERS: Final = (Sender.NOBODY, Sender.UNKNOWN, Sender.FORGER, Sender.DISABLED)
"""The senders that are no users who may sign."""
LIMITED: Final = (Sender.BARE, Sender.PARTIAL, Sender.OTHER, Sender.DENIED, Sender.ELSEWHERE)
"""The users whose policies do not allow what is needed."""


def user_of(sender: Sender, number: int) -> str:
    """Return the name of the user of a kind, for the set of permissions with a number."""
    return f"{sender.name.lower()}-{number}"


def credentials_of(sender: Sender, number: int, admin: Credentials) -> Credentials | None:
    """Return with what a request is signed; None if it is not."""
    match sender:
        case Sender.NOBODY:
            return None
        case Sender.UNKNOWN:
            return Credentials("nobody", PASSWORD)
        case Sender.FORGER:
            return Credentials(admin.access_key, f"{admin.secret_key}?")
        case Sender.DISABLED:
            return Credentials(DISABLED_USER, PASSWORD)
        case Sender.SUPER:
            return admin
        case _:
            return Credentials(user_of(sender, number), PASSWORD)


def acl_of(sender: Sender, number: int, wanted: Wanted) -> AclInfo | None:
    """Return the acl of a user; None if the user has none."""
    entries = _merged(_entries(sender, wanted))
    if not entries:
        return None
    return AclInfo(f"User:{user_of(sender, number)}", [PolicyInfo("Custom", entries)])


def _entries(sender: Sender, wanted: Wanted) -> list[PolicyEntryInfo]:
    """Return the entries of a user, an entry for each permission."""
    match sender:
        case Sender.EXACT:
            return [_entry(_exact(one), one.actions[:1]) for one in wanted]
        case Sender.PREFIX:
            return [_entry(_prefix(one), one.actions[-1:]) for one in wanted]
        case Sender.ANY:
            return [_entry("*", one.actions) for one in wanted]
        case Sender.PARTIAL:
            return [_entry(_exact(one), one.actions) for one in wanted[:-1]]
        case Sender.OTHER:
            return [_entry(_exact(one), _others(one)) for one in wanted]
        case Sender.DENIED:
            denied = [_entry(_exact(one), one.actions, decision="Deny") for one in wanted]
            return [_entry("*", (Action.ALL,)), *denied]
        case Sender.ELSEWHERE:
            return [_entry(_exact(one), one.actions, source=ELSEWHERE_SOURCE) for one in wanted]
        case _:
            return []


def _exact(access: Access) -> str:
    return f"{access.resource.value}:{NAMES[access.resource]}"


def _prefix(access: Access) -> str:
    return f"{access.resource.value}:{NAMES[access.resource][:PREFIX_LENGTH]}*"


def _others(access: Access) -> tuple[Action, ...]:
    return tuple(action for action in Action if action not in (Action.ALL, *access.actions))


def _entry(
    resource: str, actions: Iterable[Action], *, decision: str = "Allow", source: str = ""
) -> PolicyEntryInfo:
    return PolicyEntryInfo(
        resource, [str(action) for action in actions], [source] if source else None, decision
    )


def _merged(entries: Iterable[PolicyEntryInfo]) -> list[PolicyEntryInfo]:
    """Join the actions of entries for the same resource: a policy has one entry for each."""
    merged: dict[str | None, PolicyEntryInfo] = {}
    for entry in entries:
        known = merged.setdefault(entry.resource, entry)
        known.actions += [action for action in entry.actions if action not in known.actions]
    return list(merged.values())
