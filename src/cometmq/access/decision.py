"""The decision whether a user may do something: the rules of RocketMQ's ACL 2.

Of the entries of the custom policy that are for the resource, one of the wanted actions and the sender's
address the narrowest decides; if there is none, the narrowest of the default policy::

    Topic:orders  before  Topic:ord*  before  Topic:o*  before  Topic:*  before  *      equal: Deny first

So an Allow for ``Topic:orders`` beats a Deny for ``Topic:ord*``, and an entry that does not name the action
decides nothing. Without any entry the request is refused.

RocketMQ: ``UserAuthorizationHandler.java``, ``AclAuthorizationHandler.java``.
"""

from ipaddress import ip_address
from typing import NamedTuple

from cometmq.access.policies import Acl, Address, Decision, PolicyEntry, PolicyType
from cometmq.access.users import User
from cometmq.wire.requests import Action, Resource


class Permission(NamedTuple):
    """A permission that a request needs: any of the actions on one resource."""

    kind: Resource
    name: str
    actions: tuple[Action, ...]

    def __str__(self) -> str:
        return f"{self.kind.value}:{self.name}"


class Ruling(NamedTuple):
    """A decision.

    Attributes:
        refusal: why the request is refused, in RocketMQ's words; None if it is allowed.
        entry: the entry that decides; None if the user's type or status does, or no entry is for the request.
    """

    refusal: str | None
    entry: PolicyEntry | None = None

    @property
    def is_allowed(self) -> bool:
        """Whether the request is allowed."""
        return self.refusal is None


def decide(user: User, acl: Acl | None, need: Permission, address: str) -> Ruling:
    """Decide whether a user may do what a request needs, sent from an IP address."""
    if not user.is_enabled:
        return Ruling(f"User:{user.name} is disabled.")
    if user.is_super:
        return Ruling(None)
    refusal = f"User:{user.name} has no permission to access {need} from {address}, "
    source = ip_address(address)
    for kind in PolicyType:
        entry = None if acl is None else _narrowest(acl, kind, need, source)
        if entry is None:
            continue
        if entry.decision is Decision.ALLOW:
            return Ruling(None, entry)
        return Ruling(refusal + "the decision is deny.", entry)
    return Ruling(refusal + "no matched policies.")


def _narrowest(acl: Acl, kind: PolicyType, need: Permission, source: Address) -> PolicyEntry | None:
    entries = (
        entry for entry in acl.entries(kind) if entry.is_for(need.kind, need.name, need.actions, source)
    )
    return min(entries, key=_order, default=None)


def _order(entry: PolicyEntry) -> tuple[tuple[bool, bool, int], bool]:
    return entry.resource.rank, entry.decision is Decision.ALLOW
