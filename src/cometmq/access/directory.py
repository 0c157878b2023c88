"""The users of a server and their policies, in memory.

Whoever holds the directory saves it: ``snapshot`` returns its content, which a thread can convert to plain
values, ``restore`` reads these, and ``on_change`` is called after each change.

RocketMQ: ``AuthenticationMetadataManagerImpl.java``, ``AuthorizationMetadataManagerImpl.java``.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from cometmq.access.policies import Acl, Pattern, PolicyEntry, PolicyType
from cometmq.access.users import User, UserStatus, UserType
from cometmq.errors import AccessError, FormatError


class Snapshot(NamedTuple):
    """The content of a directory at one time: users and acls by the user's name."""

    users: Mapping[str, User]
    acls: Mapping[str, Acl]

    def plain_users(self) -> dict[str, Any]:
        """Return the users as plain values, by name and without it, for a file. Safe from any thread."""
        return {name: _plain_user(user) for name, user in sorted(self.users.items())}

    def plain_acls(self) -> dict[str, Any]:
        """Return the entries of each user's policies as plain values. Safe from any thread."""
        return {
            name: {kind.value: [_plain(entry) for entry in acl.entries(kind)] for kind in PolicyType}
            for name, acl in sorted(self.acls.items())
        }


class Directory:
    """The users and their policies.

    Attributes:
        on_change: called after each change.
    """

    def __init__(self) -> None:
        self._users: dict[str, User] = {}
        self._acls: dict[str, Acl] = {}
        self.on_change: list[Callable[[], None]] = []

    def find(self, name: str) -> User | None:
        """Return the user of a name, or None."""
        return self._users.get(name)

    def users(self, part: str = "") -> list[User]:
        """Return the users whose names contain a text, by name."""
        return [user for name, user in sorted(self._users.items()) if part in name]

    def create(self, user: User) -> None:
        """Add a user. Raises AccessError."""
        if not user.name.strip():
            raise AccessError("username can not be blank")
        if not user.password.strip():
            raise AccessError("password can not be blank")
        if user.name in self._users:
            raise AccessError("The user is existed")
        self._users[user.name] = user
        self._changed()

    def update(
        self,
        name: str,
        *,
        password: str | None = None,
        type: UserType | None = None,  # noqa: A002 - the name of the field
        status: UserStatus | None = None,
    ) -> None:
        """Change a user, but for what is None, and a blank password. Raises AccessError."""
        user = self._users.get(name)
        if user is None:
            raise AccessError("The user is not exist")
        if password is not None and password.strip():
            user = replace(user, password=password)
        user = replace(user, type=type or user.type, status=status or user.status)
        self._users[name] = user
        self._changed()

    def delete(self, name: str) -> None:
        """Delete a user, if there is one, and its acl."""
        self._users.pop(name, None)
        self._acls.pop(name, None)
        self._changed()

    def acl(self, name: str) -> Acl | None:
        """Return the acl of a user; None without one, or without such a user."""
        return self._acls.get(name)

    def acls(self, subject_part: str = "", resource_part: str = "") -> list[Acl]:
        """Return the acls whose subjects (``User:name``) contain a text, by name.

        Args:
            resource_part: only entries whose resources contain it are returned, and acls with such.
        """
        found = []
        for name, acl in sorted(self._acls.items()):
            if subject_part not in f"User:{name}":
                continue
            kept = acl._replace(
                custom=_with_resource(acl.custom, resource_part),
                default=_with_resource(acl.default, resource_part),
            )
            if kept.custom or kept.default:
                found.append(kept)
        return found

    def put_acl(self, acl: Acl) -> None:
        """Add entries to a user's acl, in place of those for the same resources. Raises AccessError."""
        if acl.user not in self._users:
            raise AccessError(f"The subject of User:{acl.user} is not exist.")
        old = self._acls.get(acl.user, Acl(acl.user))
        for kind in PolicyType:
            old = old.merged(kind, acl.entries(kind))
        self._acls[acl.user] = old
        self._changed()

    def delete_acl(
        self, name: str, kind: PolicyType = PolicyType.CUSTOM, resource: Pattern | None = None
    ) -> None:
        """Delete a policy's entry for a resource, or without a resource the whole acl. Raises AccessError."""
        if name not in self._users:
            raise AccessError("The subject is not exist.")
        acl = self._acls.get(name)
        if acl is None:
            raise AccessError("The acl is not exist.")
        kept = Acl(name) if resource is None else acl.without(kind, resource)
        if kept.custom or kept.default:
            self._acls[name] = kept
        else:
            del self._acls[name]
        self._changed()

    @property
    def user_count(self) -> int:
        """The number of users."""
        return len(self._users)

    def snapshot(self) -> Snapshot:
        """Return the content; later changes do not change it."""
        return Snapshot(self._users.copy(), self._acls.copy())

    def revert(self, snapshot: Snapshot) -> None:
        """Replace the content by that of a snapshot."""
        self._users, self._acls = dict(snapshot.users), dict(snapshot.acls)
        self._changed()

    def restore(self, users: Mapping[str, Any], acls: Mapping[str, Any]) -> None:
        """Replace the content by plain values of a file. Raises FormatError; the content then stays."""
        try:
            read = {name: msgspec.convert({"name": name, **user}, User) for name, user in users.items()}
            kept = {name: _acl(name, policies) for name, policies in acls.items()}
        except (msgspec.ValidationError, AccessError, KeyError, TypeError) as error:
            raise FormatError(f"users or acls that no broker has saved: {error}") from error
        if lost := kept.keys() - read.keys():
            raise FormatError(f"acls without their users: {', '.join(sorted(lost))}")
        self._users, self._acls = read, kept
        self._changed()

    def _changed(self) -> None:
        for action in self.on_change:
            action()


def _with_resource(entries: Iterable[PolicyEntry], part: str) -> tuple[PolicyEntry, ...]:
    return tuple(entry for entry in entries if part in str(entry.resource))


def _plain_user(user: User) -> dict[str, Any]:
    return {"password": user.password, "type": user.type.value, "status": user.status.value}


def _plain(entry: PolicyEntry) -> dict[str, Any]:
    return {
        "resource": str(entry.resource),
        "actions": [action.value for action in entry.actions],
        "sources": entry.source_texts,
        "decision": entry.decision.value,
    }


def _acl(name: str, policies: Mapping[str, Any]) -> Acl:
    custom, default = (
        tuple(
            PolicyEntry.parse(one["resource"], one["actions"], one["sources"], one["decision"])
            for one in policies[kind.value]
        )
        for kind in PolicyType
    )
    return Acl(name, custom, default)
