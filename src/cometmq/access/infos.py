"""Users and acls to and from the texts in which operators send and get them (``wire.bodies.access``).

RocketMQ: ``UserConverter.java``, ``AclConverter.java``.
"""

from enum import StrEnum
from typing import Final, TypeVar

from cometmq.access.policies import Acl, PolicyEntry, PolicyType
from cometmq.access.users import User, UserStatus, UserType
from cometmq.errors import AccessError
from cometmq.wire.bodies.access import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo

SUBJECT_PREFIX: Final = "User:"
"""What stands before a user's name where a subject is named."""

MemberT = TypeVar("MemberT", bound=StrEnum)


def user_of(info: UserInfo) -> User:
    """Return a new user; a type or status that is missing or unknown is NORMAL, or ENABLE."""
    return User(
        info.username or "",
        info.password or "",
        member_of(UserType, info.user_type) or UserType.NORMAL,
        member_of(UserStatus, info.user_status) or UserStatus.ENABLE,
    )


def info_of_user(user: User) -> UserInfo:
    """Return a user as it is sent, with the password."""
    return UserInfo(user.name, user.password, user.type.value, user.status.value)


def acl_of(info: AclInfo) -> Acl:
    """Return an acl. Raises AccessError if a part of it cannot be used."""
    acl = Acl(user_in(info.subject))
    for policy in info.policies:
        kind = policy_type_of(policy.policy_type)
        if not policy.entries:
            raise AccessError("The policy entries is empty.")
        acl = acl.merged(kind, map(entry_of, policy.entries))
    return acl


def info_of_acl(acl: Acl) -> AclInfo:
    """Return an acl as it is sent; a policy without entries is left out."""
    policies = [PolicyInfo(kind.value, list(map(info_of_entry, acl.entries(kind)))) for kind in PolicyType]
    return AclInfo(SUBJECT_PREFIX + acl.user, [policy for policy in policies if policy.entries])


def user_in(subject: str | None) -> str:
    """Return the name of the user in a subject, ``User:name``. Raises AccessError for another subject."""
    kind, _, name = (subject or "").partition(":")
    if kind.lower() != "user" or not name:
        raise AccessError("The subject type is null.")
    return name


def policy_type_of(text: str | None) -> PolicyType:
    """Return the policy of a name; the custom one without a name, or with another one."""
    return member_of(PolicyType, text) or PolicyType.CUSTOM


def member_of(kind: type[MemberT], text: str | None) -> MemberT | None:
    """Return the member of a name, in upper or lower case; None if there is none."""
    wanted = (text or "").lower()
    return next((member for member in kind if member.value.lower() == wanted), None)


def entry_of(info: PolicyEntryInfo) -> PolicyEntry:
    """Return an entry. Raises AccessError if a part of it cannot be used."""
    return PolicyEntry.parse(info.resource, info.actions, info.source_ips, info.decision)


def info_of_entry(entry: PolicyEntry) -> PolicyEntryInfo:
    """Return an entry as it is sent."""
    actions = [action.value for action in entry.actions]
    return PolicyEntryInfo(str(entry.resource), actions, entry.source_texts or None, entry.decision.value)
