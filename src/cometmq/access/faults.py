"""Why an entry of an acl would not do what its text says, and the remedy.

RocketMQ keeps any text: ``Topic:*secret`` matches no topic, so an entry that is to forbid it forbids nothing;
of ``Topic:a*b*`` it keeps ``Topic:a*``, which allows more; of the actions ``Pub, Sbu`` it keeps ``Pub``. Here
such entries are refused when they are sent. Those that a store already has are loaded, and logged.
"""

from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Final

from cometmq.access.infos import acl_of, entry_of, member_of
from cometmq.access.needs import NEEDED
from cometmq.access.policies import ANY, Acl, Decision, Network, Pattern, PolicyEntry, PolicyType
from cometmq.access.users import UserStatus, UserType
from cometmq.errors import AccessError, IllegalName
from cometmq.format.layout import RETRY_PREFIX, valid_group, valid_topic
from cometmq.wire.bodies.access import AclInfo, PolicyEntryInfo, UserInfo
from cometmq.wire.requests import Action, Resource

_NOBODYS_4: Final = IPv4Network("0.0.0.0/8"), IPv4Network("224.0.0.0/3")
_NOBODYS_6: Final = IPv6Network("::/128"), IPv6Network("ff00::/8")
"""Networks that no sender is in: unspecified, multicast and reserved addresses."""
_MAPPED: Final = IPv6Network("::ffff:0:0/96")
"""IPv4 addresses as IPv6 ones; who sends from one is known by the IPv4 address."""


def check_user(info: UserInfo) -> None:
    """Check that a user's type and status are known ones, as far as they are sent. Raises AccessError."""
    _check_known("user type", UserType, info.user_type)
    _check_known("user status", UserStatus, info.user_status)


def check_acl(info: AclInfo) -> Acl:
    """Return an acl that is to be kept. Raises AccessError if a part would not do what its text says."""
    acl = acl_of(info)
    for policy in info.policies:
        _check_known("policy type", PolicyType, policy.policy_type)
        for entry in policy.entries:
            check_entry(entry)
    return acl


def check_entry(info: PolicyEntryInfo) -> None:
    """Check that an entry is for requests, and only for those that its text names. Raises AccessError."""
    entry = entry_of(info)
    for action in info.actions:
        _check_known("action", Action, action)
    for text, network in zip(info.source_ips or (), entry.sources, strict=True):
        address, _, prefix = text.strip().partition("/")
        if prefix and ip_network(address).network_address != network.network_address:
            raise AccessError(
                f"The source ip {text!r:.60} is no network: use {network}, or {address} for the address."
            )
    if (fault := fault_of(entry)) is not None:
        raise AccessError(fault)


def fault_of(entry: PolicyEntry) -> str | None:
    """Return why an entry, or one of its sources, is for no request, and the remedy; None if all are."""
    if (fault := fault_of_pattern(entry.resource)) is not None:
        return fault
    for source in entry.sources:
        if (fault := _fault_of_source(source)) is not None:
            return fault
    if entry.decision is Decision.ALLOW or Action.ALL in entry.actions:
        return None
    kind = entry.resource.kind
    needed = NEEDED[kind] if kind else frozenset[Action]().union(*NEEDED.values())
    if needed.isdisjoint(entry.actions):
        known = ", ".join(action for action in Action if action in needed)
        return f"The entry for {str(entry.resource)!r:.160} forbids nothing: use All, or of {known}."
    return None


def fault_of_pattern(pattern: Pattern) -> str | None:
    """Return why no resource can match a pattern, and the remedy; None if one can."""
    if pattern.kind is None:
        return None
    remedy = _remedy(pattern.kind, pattern.name, is_prefix=pattern.is_prefix)
    return remedy and f"The resource {str(pattern)!r:.160} matches nothing: {remedy}."


def _remedy(kind: Resource, name: str, *, is_prefix: bool) -> str | None:
    """Return what to write instead of a name that no resource of a kind has; None if one can have it."""
    if kind is Resource.NAMESPACE:
        return "no request needs a namespace; name its topics and groups, such as Topic:NAMESPACE%*"
    if not name:
        return None if is_prefix else f"name one, or all: {kind.value}:{ANY}"
    if ANY in name:
        return f"a {ANY} can only be the last character, such as {kind.value}:orders-{ANY}"
    if kind is Resource.TOPIC and name.startswith(RETRY_PREFIX):
        return "retry topics need what their group needs; use Group:NAME"
    try:
        if kind is Resource.TOPIC:
            valid_topic(name)
        elif kind is Resource.GROUP:
            valid_group(name)
    except IllegalName as error:
        return str(error)
    return None


def _fault_of_source(source: Network) -> str | None:
    """Return why no sender is in a network, and the remedy; None if one can be."""
    if isinstance(source, IPv4Network):
        is_nobodys = any(map(source.subnet_of, _NOBODYS_4))
    else:
        if source.subnet_of(_MAPPED):
            mapped = IPv4Network((source.network_address.ipv4_mapped, source.prefixlen - _MAPPED.prefixlen))
            return f"The source ip {source} matches nobody: use {mapped}, as senders are known by IPv4."
        is_nobodys = any(map(source.subnet_of, _NOBODYS_6))
    if is_nobodys:
        return f"The source ip {source} is nobody's: name no source for all senders, or 0.0.0.0/0 and ::/0."
    return None


def _check_known(what: str, kind: type[StrEnum], text: str | None) -> None:
    """Check that a text names a member, if there is one. Raises AccessError."""
    if text and member_of(kind, text) is None:
        raise AccessError(f"The {what} {text!r:.60} is unknown: use {', '.join(kind)}.")
