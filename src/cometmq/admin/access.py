"""Users and access control lists (acls): list, change and remove them, and check what a user may do.

Each broker has users and acls of its own, slaves too, so a change is made on every broker of the cluster, or
on one whose address is given. What is equal on several brokers is returned once, with their names.
"""

import asyncio
from collections.abc import Callable, Hashable, Iterable
from functools import partial
from ipaddress import ip_address, ip_network
from typing import Final, NamedTuple, TypeVar

from cometmq.access.decision import Permission, decide
from cometmq.access.faults import check_entry, fault_of_pattern
from cometmq.access.infos import SUBJECT_PREFIX, acl_of, info_of_entry, user_of
from cometmq.access.policies import Pattern, PolicyType
from cometmq.admin.cluster import ClusterAdmin, nearest
from cometmq.arguments import TEXT, check, instance_of, or_none
from cometmq.cluster.route import MASTER
from cometmq.errors import AccessError, NetworkError, NotFound, RemoteError, SettingsError
from cometmq.wire import headers as h
from cometmq.wire.bodies.access import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo, decode_list
from cometmq.wire.bodies.body import Body, decode, encode
from cometmq.wire.codes import RequestCode
from cometmq.wire.requests import Action

ValueT = TypeVar("ValueT")
InfoT = TypeVar("InfoT", bound=Body)

ACTIONS: Final = tuple(action.value for action in Action)
RESOURCES: Final = "Topic:orders, Topic:orders-*, Group:billing, Cluster:DefaultCluster, Topic:* or *"


class KnownUser(NamedTuple):
    """A user, and the names of the brokers that know it as this."""

    user: UserInfo
    brokers: list[str]


class KnownAcl(NamedTuple):
    """The acl of a user, and the names of the brokers that have it so."""

    acl: AclInfo
    brokers: list[str]

    @property
    def user(self) -> str:
        """The name of the user."""
        return (self.acl.subject or "").removeprefix(SUBJECT_PREFIX)


class EntryLine(NamedTuple):
    """One entry of an acl, for output."""

    user: str
    policy: str
    resource: str
    actions: list[str]
    sources: list[str]
    decision: str
    brokers: list[str]


class KnownVerdict(NamedTuple):
    """Whether a user may do something, and the names of the brokers that decide so.

    Attributes:
        refusal: why it may not, in RocketMQ's words; None if it may.
        policy: the policy that decides, ``Custom`` or ``Default``; None if the user itself does, or nothing.
        entry: the entry of it that decides; None without one.
    """

    refusal: str | None
    policy: str | None
    entry: PolicyEntryInfo | None
    brokers: list[str]


async def users(cluster: ClusterAdmin, part: str = "", *, broker: str | None = None) -> list[KnownUser]:
    """Return the users whose name contains ``part``, sorted.

    Args:
        broker: the address of the only broker to ask.

    Raises:
        NoBroker: the name server knows no broker.
        RemoteError: a broker refuses.
        NetworkError: a server does not answer.
    """
    check(TEXT, part=part)
    header = h.UserFilterHeader(part or None)
    answers = await _ask_all(
        cluster, broker, RequestCode.AUTH_LIST_USER, header, partial(decode_list, UserInfo)
    )
    pairs = ((name, user) for name, found in answers.items() for user in found)
    found = _grouped(pairs, encode)
    return sorted((KnownUser(*one) for one in found), key=lambda known: known.user.username or "")


async def find_user(cluster: ClusterAdmin, name: str, *, broker: str | None = None) -> list[KnownUser]:
    """Return a user as the brokers know it. Raises NotFound if none does, else as ``users``."""
    check(TEXT, name=name)
    code, header = RequestCode.AUTH_GET_USER, h.UserHeader(name)
    answers = await _ask_all(cluster, broker, code, header, partial(_decode_any, UserInfo))
    pairs = ((source, user) for source, user in answers.items() if user is not None)
    found = _grouped(pairs, encode)
    if not found:
        known = [one.user.username or "" for one in await users(cluster, broker=broker)]
        raise missing_user(name, known)
    return [KnownUser(*one) for one in found]


async def add_user(cluster: ClusterAdmin, info: UserInfo, *, broker: str | None = None) -> list[str]:
    """Create a user; return the names of the brokers.

    Raises RemoteError if a broker has a user of this name, else as ``users``.
    """
    return await _change_user(cluster, RequestCode.AUTH_CREATE_USER, info, broker)


async def update_user(cluster: ClusterAdmin, info: UserInfo, *, broker: str | None = None) -> list[str]:
    """Change what is not None of a user; return the names of the brokers.

    Raises RemoteError if a broker does not know the user, else as ``users``.
    """
    return await _change_user(cluster, RequestCode.AUTH_UPDATE_USER, info, broker)


async def remove_user(cluster: ClusterAdmin, name: str, *, broker: str | None = None) -> list[str]:
    """Remove a user and its acl; return the names of the brokers.

    Raises NotFound if no broker knows the user, else as ``users``.
    """
    await find_user(cluster, name, broker=broker)  # brokers report success for one that does not exist
    return await _change(cluster, broker, RequestCode.AUTH_DELETE_USER, h.UserHeader(name))


async def acls(
    cluster: ClusterAdmin, user_part: str = "", resource_part: str = "", *, broker: str | None = None
) -> list[KnownAcl]:
    """Return the acls of users whose name contains ``user_part``, sorted.

    Args:
        resource_part: only the entries whose resource contains this.
        broker: as in ``users``, which also says what is raised.
    """
    check(TEXT, user_part=user_part, resource_part=resource_part)
    header = h.AclFilterHeader(user_part or None, resource_part or None)
    answers = await _ask_all(
        cluster, broker, RequestCode.AUTH_LIST_ACL, header, partial(decode_list, AclInfo)
    )
    pairs = ((name, acl) for name, found in answers.items() for acl in found)
    found = _grouped(pairs, encode)
    named = (KnownAcl(*one) for one in found)
    return sorted((one for one in named if user_part in one.user), key=lambda known: known.user)


async def find_acl(cluster: ClusterAdmin, name: str, *, broker: str | None = None) -> list[KnownAcl]:
    """Return the acl of a user as the brokers have it; empty if none has one.

    Raises RemoteError if a broker does not know the user, else as ``users``.
    """
    check(TEXT, name=name)
    code, header = RequestCode.AUTH_GET_ACL, h.SubjectHeader(SUBJECT_PREFIX + name)
    answers = await _ask_all(cluster, broker, code, header, partial(_decode_any, AclInfo))
    pairs = ((source, acl) for source, acl in answers.items() if acl is not None)
    return [KnownAcl(*one) for one in _grouped(pairs, encode)]


async def add_entry(
    cluster: ClusterAdmin,
    name: str,
    entry: PolicyEntryInfo,
    *,
    policy_type: str = "Custom",
    broker: str | None = None,
) -> list[str]:
    """Add an entry to a user's acl, or replace that of the same resource; return the names of the brokers.

    Raises SettingsError for an entry that would not do what it says, RemoteError if a broker does not know
    the user or refuses the entry, else as ``users``.
    """
    check(TEXT, name=name, policy_type=policy_type)
    check(instance_of(PolicyEntryInfo), entry=entry)
    _check_entry(entry)
    subject = SUBJECT_PREFIX + name
    body = AclInfo(subject, [PolicyInfo(policy_type, [entry])])
    return await _change(cluster, broker, RequestCode.AUTH_UPDATE_ACL, h.SubjectHeader(subject), body)


async def remove_entry(
    cluster: ClusterAdmin,
    name: str,
    resource: str | None = None,
    *,
    policy_type: str = "Custom",
    broker: str | None = None,
) -> list[str]:
    """Remove the entry of a resource from a user's acl, or the whole acl; return the names of the brokers.

    Raises RemoteError if a broker has no such acl, else as ``users``.
    """
    check(TEXT, name=name, policy_type=policy_type)
    check(or_none(TEXT), resource=resource)
    header = h.DeleteAclHeader(SUBJECT_PREFIX + name, policy_type if resource else None, resource)
    return await _change(cluster, broker, RequestCode.AUTH_DELETE_ACL, header)


async def verdicts(
    cluster: ClusterAdmin, name: str, need: Permission, address: str, *, broker: str | None = None
) -> list[KnownVerdict]:
    """Return whether a user may do something from an address, by the users and acls of each broker.

    Raises as ``users``.
    """
    check(TEXT, name=name, address=address)
    subject = SUBJECT_PREFIX + name
    read_user, read_acls = partial(_decode_any, UserInfo), partial(decode_list, AclInfo)
    users_found, acls_found = await asyncio.gather(
        _ask_all(cluster, broker, RequestCode.AUTH_GET_USER, h.UserHeader(name), read_user),
        _ask_all(cluster, broker, RequestCode.AUTH_LIST_ACL, h.AclFilterHeader(subject), read_acls),
    )
    pairs = (
        (source, _verdict(name, user, acls_found[source], need, address))
        for source, user in users_found.items()
        if source in acls_found
    )
    return [KnownVerdict(*one, brokers) for one, brokers in _grouped(pairs, str)]


def _verdict(
    name: str, user: UserInfo | None, acls: list[AclInfo], need: Permission, address: str
) -> tuple[str | None, str | None, PolicyEntryInfo | None]:
    """Decide by what one broker has sent of a user and its acl."""
    if user is None:
        return f"User:{name} not found.", None, None
    lists = [acl_of(info) for info in acls if info.subject == SUBJECT_PREFIX + name]
    acl = lists[0] if lists else None
    refusal, entry = decide(user_of(user), acl, need, address)
    if acl is None or entry is None:
        return refusal, None, None
    policy = PolicyType.CUSTOM if entry in acl.custom else PolicyType.DEFAULT
    return refusal, policy.value, info_of_entry(entry)


async def are_known(cluster: ClusterAdmin) -> bool:
    """Return whether a broker has users that it shows to whoever asks.

    Raises NoBroker, NetworkError if no name server answers.
    """

    async def one(address: str) -> bool:
        try:
            await cluster.ask(address, RequestCode.AUTH_LIST_USER, h.UserFilterHeader(None))
        except (RemoteError, NetworkError):
            return False
        return True

    return any(await asyncio.gather(*map(one, (await cluster.masters()).values())))


def entry_lines(found: Iterable[KnownAcl]) -> list[EntryLine]:
    """Return a line for each entry of acls."""
    return [
        EntryLine(
            known.user,
            policy.policy_type or "",
            entry.resource or "",
            entry.actions,
            entry.source_ips or [],
            entry.decision or "",
            known.brokers,
        )
        for known in found
        for policy in known.acl.policies
        for entry in policy.entries
    ]


def parse_resource(text: str) -> Pattern:
    """Parse the resource of an entry: see ``RESOURCES``. Raises SettingsError."""
    try:
        return Pattern.parse(text)
    except AccessError:
        raise SettingsError(f"resource {text!r}: give one such as {RESOURCES}") from None


def _check_entry(entry: PolicyEntryInfo) -> None:
    """Check an entry as brokers of CometMQ do, for others keep any. Raises SettingsError."""
    parse_resource(entry.resource or "")
    for source in entry.source_ips or ():
        try:
            ip_network(source.strip(), strict=False)
        except ValueError:
            raise SettingsError(
                f"source {source!r}: give an address such as 192.0.2.7, or a network such as 192.0.2.0/24"
            ) from None
    try:
        check_entry(entry)
    except AccessError as error:
        raise SettingsError(str(error)) from None


def parse_need(action: str, resource: str) -> Permission:
    """Parse an action on one topic, group or cluster. Raises SettingsError."""
    pattern = parse_resource(resource)
    if pattern.kind is None or pattern.is_prefix:
        raise SettingsError(f"resource {resource!r}: give a single one, such as Topic:orders")
    if (fault := fault_of_pattern(pattern)) is not None:
        raise SettingsError(fault)
    if action not in ACTIONS[1:]:
        raise SettingsError(f"action {action!r}: give one of {', '.join(ACTIONS[1:])}")
    return Permission(pattern.kind, pattern.name, (Action(action),))


def parse_source(text: str, option: str) -> str:
    """Parse the IP address that a request comes from. Raises SettingsError that names the option."""
    try:
        return str(ip_address(text))
    except ValueError:
        raise SettingsError(f"{option} {text!r}: give an IP address, such as 192.0.2.7") from None


def missing_user(name: str, known: list[str]) -> NotFound:
    """Build the error for a missing user: the number of users, the nearest name, and how to create it."""
    return NotFound(
        f"no user {name!r}: the brokers know {len(known)} users{nearest(name, known)}"
        f"; create it with: cometmq user add {name}"
    )


async def brokers_of(cluster: ClusterAdmin, only: str | None) -> dict[str, str]:
    """Return the addresses of all brokers by name, slaves by name and id; or one address, by itself.

    Raises NoBroker if there are none.
    """
    check(or_none(TEXT), only=only)
    if only is not None:
        return {only: only}
    return {
        name if broker_id == MASTER else f"{name}:{broker_id}": address
        for name, data in sorted((await cluster.registered()).brokers.items())
        for broker_id, address in sorted(data.addrs.items())
    }


async def _ask_all(
    cluster: ClusterAdmin,
    only: str | None,
    code: RequestCode,
    header: h.Header,
    read: Callable[[bytes], ValueT],
) -> dict[str, ValueT]:
    """Send a request to all brokers; return what is read from the bodies of the responses by broker name."""
    brokers = await brokers_of(cluster, only)
    return await cluster.ask_each(brokers, code, header, read=lambda answer: read(answer.body))


def _decode_any(body_type: type[InfoT], body: bytes) -> InfoT | None:
    """Decode a body; None if there is none."""
    return decode(body_type, body) if body else None


async def _change_user(
    cluster: ClusterAdmin, code: RequestCode, info: UserInfo, broker: str | None
) -> list[str]:
    check(instance_of(UserInfo), info=info)
    check(TEXT, username=info.username)
    return await _change(cluster, broker, code, h.UserHeader(info.username or ""), info)


async def _change(
    cluster: ClusterAdmin, only: str | None, code: RequestCode, header: h.Header, body: Body | None = None
) -> list[str]:
    """Send a change to all brokers, one after the other; return their names.

    Raises RemoteError that names the broker that refuses, and those that have the change already.
    """
    changed: list[str] = []
    for name, address in (await brokers_of(cluster, only)).items():
        try:
            await cluster.ask(address, code, header, b"" if body is None else encode(body))
        except RemoteError as error:
            already = f", changed on {', '.join(changed)}" if changed else ""
            raise RemoteError(error.code, f"{error.remark} [by broker {name}{already}]") from None
        changed.append(name)
    return changed


def _grouped(
    found: Iterable[tuple[str, ValueT]], key: Callable[[ValueT], Hashable]
) -> list[tuple[ValueT, list[str]]]:
    """Return each value of another key once, with the names of the brokers that sent it."""
    groups: dict[Hashable, tuple[ValueT, list[str]]] = {}
    for name, value in found:
        groups.setdefault(key(value), (value, []))[1].append(name)
    return list(groups.values())
