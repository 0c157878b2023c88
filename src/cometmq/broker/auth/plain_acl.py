"""The accounts of RocketMQ 4.x in ``plain_acl.yml``: read, followed while a broker runs, or migrated.

Below RocketMQ's home are ``conf/plain_acl.yml`` and, in ``conf/acl``, any number of files like it. An account
becomes a user, a super user if it is an admin, and its permissions become that user's acl.

*Followed* (``aclEnable``), the files are the truth: their accounts are in no other file, requests do not
change them, and a change of a file holds a second later. *Migrated* (``migrateAuthFromV1Enabled``), accounts
that are no users yet become some, once, when the broker starts.

SUB allows Get, too: under ACL 1 whoever could read a topic could ask for its offsets, which new groups do.
Addresses that need no signature (``globalWhiteRemoteAddresses``, ``whiteRemoteAddress``) are passed over and
logged: such a door is not opened here.

RocketMQ: 4.x ``PlainPermissionManager.java``, ``Permission.java``; 5.x ``AuthMigrator.java``.
"""

import asyncio
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from cometmq.access.directory import Directory
from cometmq.access.faults import fault_of_pattern
from cometmq.access.policies import Acl, Decision, Pattern, PolicyEntry
from cometmq.access.users import User, UserType
from cometmq.errors import FormatError, SettingsError
from cometmq.extras import require
from cometmq.format.layout import RETRY_PREFIX
from cometmq.io.regular import regular_stat
from cometmq.logs import get_logger
from cometmq.wire.requests import Action, Resource

FOLLOW_MS: Final = 500
"""Interval at which followed files are looked at; a changed one is read when it has rested for one."""

_SUB: Final = (Action.SUB, Action.GET)
_PERMISSIONS: Final[dict[str, tuple[Decision, tuple[Action, ...]]]] = {
    "DENY": (Decision.DENY, (Action.ALL,)),
    "PUB": (Decision.ALLOW, (Action.PUB,)),
    "SUB": (Decision.ALLOW, _SUB),
    "PUB|SUB": (Decision.ALLOW, (Action.PUB, *_SUB)),
    "SUB|PUB": (Decision.ALLOW, (Action.PUB, *_SUB)),
}
_SUFFIXES: Final = (".yml", ".yaml")

_log = get_logger(__name__)

Stamps = list[tuple[Path, int, int, int]]
"""Of each file its path, when it was written, its size and its inode."""


class Account(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    """An account of a file."""

    access_key: str
    secret_key: str
    white_remote_address: str | None = None
    admin: bool = False
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: list[str] | None = None
    group_perms: list[str] | None = None

    def __repr__(self) -> str:
        return f"Account({self.access_key!r}, ***)"

    def user(self) -> User:
        """Return the account as a user."""
        kind = UserType.SUPER if self.admin else UserType.NORMAL
        return User(self.access_key, self.secret_key, kind)

    def acl(self) -> Acl | None:
        """Return its permissions; None if it has none. Raises FormatError."""
        custom = tuple(entry for entry in self._entries() if fault_of_pattern(entry.resource) is None)
        defaults = (
            (Resource.TOPIC, self.default_topic_perm),
            (Resource.GROUP, self.default_group_perm),
        )
        default = tuple(
            self._allowed(Pattern(kind, "", is_prefix=True), perm) for kind, perm in defaults if perm
        )
        return Acl(self.access_key, custom, default) if custom or default else None

    def names_of_nothing(self) -> list[str]:
        """Return the topics and groups that it names, and that no topic or group can be called."""
        named = (entry.resource for entry in self._entries())
        return [str(resource) for resource in named if fault_of_pattern(resource) is not None]

    def _entries(self) -> Iterator[PolicyEntry]:
        """Iterate over the entries of its lines. Raises FormatError."""
        for kind, perms in ((Resource.TOPIC, self.topic_perms), (Resource.GROUP, self.group_perms)):
            for perm in perms or ():
                yield self._entry(kind, perm)

    def _entry(self, kind: Resource, text: str) -> PolicyEntry:
        """Return the entry of a line such as ``topicB=PUB|SUB``."""
        name, _, perm = (part.strip() for part in text.partition("="))
        if name.startswith(RETRY_PREFIX):
            kind, name = Resource.GROUP, name.removeprefix(RETRY_PREFIX)
        if not name:
            raise FormatError(f"account {self.access_key}: {text!r:.60} is not NAME=PERMISSION")
        return self._allowed(Pattern(kind, name, is_prefix=False), perm)

    def _allowed(self, resource: Pattern, perm: str) -> PolicyEntry:
        if perm.strip() not in _PERMISSIONS:
            known = ", ".join(_PERMISSIONS)
            raise FormatError(
                f"account {self.access_key}: {resource} has the permission {perm!r:.60}: use {known}"
            )
        decision, actions = _PERMISSIONS[perm.strip()]
        return PolicyEntry(resource, actions, (), decision)


class AccountFile(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """What a file holds."""

    accounts: list[Account] | None = None
    global_white_remote_addresses: list[str] | None = None
    data_version: Any = None


class PlainAcl:
    """The accounts of files, followed.

    Args:
        home: RocketMQ's home.
    """

    def __init__(self, home: Path, directory: Directory) -> None:
        self._home = home
        self._directory = directory
        self._accounts: dict[str, tuple[User, Acl | None]] = {}
        self._read_at: Stamps = []
        self._seen: Stamps = []

    def load(self) -> None:
        """Read the files and create their users. Raises SettingsError that names the file and the line."""
        self._read_at = self._seen = _stamps(self._home)
        self._accept(read_accounts(self._home))

    async def round(self) -> None:
        """Read the files again if they have changed; broken ones are logged, and the accounts stay."""
        stamps = await asyncio.to_thread(_stamps, self._home)
        has_rested, self._seen = stamps == self._seen, stamps
        if stamps == self._read_at or not has_rested:
            return
        self._read_at = stamps
        try:
            self._accept(await asyncio.to_thread(read_accounts, self._home))
        except SettingsError as error:
            _log.error("the accounts stay as they are: %s", error)

    def is_account(self, name: str) -> bool:
        """Check whether the user of a name is one of the accounts."""
        return name in self._accounts

    def apply(self) -> None:
        """Replace the directory's users of these names by the accounts, where they differ."""
        for name, (user, acl) in self._accounts.items():
            if self._directory.find(name) != user or self._directory.acl(name) != acl:
                self._directory.delete(name)
                _create(self._directory, user, acl)

    def _accept(self, accounts: Sequence[Account]) -> None:
        """Replace the former accounts by these. Raises SettingsError, and then changes nothing."""
        accepted = {account.access_key: (account.user(), account.acl()) for account in accounts}
        for name in accepted.keys() - self._accounts.keys():
            if self._directory.find(name) is not None:
                raise SettingsError(
                    f"account {name} of {_file(self._home)} is a user of the broker, too: remove one of them"
                )
        for name in self._accounts.keys() - accepted.keys():
            self._directory.delete(name)
        self._accounts = accepted
        self.apply()
        _log.info("%s: %d accounts are in force", _file(self._home), len(accepted))


def migrate(home: Path, directory: Directory) -> list[str]:
    """Create a user for each account that is none yet; return their names. Raises SettingsError."""
    migrated = []
    for account in read_accounts(home):
        if directory.find(account.access_key) is None:
            _create(directory, account.user(), account.acl())
            migrated.append(account.access_key)
    if migrated:
        _log.info("%s: migrated to users: %s", _file(home), ", ".join(migrated))
    return migrated


def read_accounts(home: Path) -> list[Account]:
    """Return the accounts of all files; addresses that need no signature are passed over, and logged.

    Raises SettingsError, with the file and its line, if there is no file or one cannot be used.
    """
    accounts: dict[str, Account] = {}
    white: list[str] = []
    files = list(_files(home))
    if not files:
        raise SettingsError(f"{_file(home)} is not there, nor a file in {_folder(home)}: see rocketmqHome")
    for path in files:
        content = _read(path)
        white += content.global_white_remote_addresses or ()
        for account in content.accounts or ():
            if account.access_key in accounts:
                raise SettingsError(
                    f"{path}: account {account.access_key} is there twice, or in another file"
                )
            accounts[account.access_key] = account
            if void := account.names_of_nothing():
                _log.warning(
                    "%s: account %s: no topic or group can be called %s: name each by itself, without *",
                    path,
                    account.access_key,
                    ", ".join(void),
                )
            white += [account.white_remote_address] if account.white_remote_address else []
    if white:
        _log.warning("%s: clients at %s must sign their requests, too", _file(home), ", ".join(white))
    return list(accounts.values())


def _read(path: Path) -> AccountFile:
    """Read one file, and check all permissions in it. Raises SettingsError."""
    require("broker", str(path), "yaml")
    from cometmq.broker.auth import simple_yaml  # noqa: PLC0415 - it imports PyYAML, which few brokers need

    try:
        regular_stat(path)
        plain = simple_yaml.loads(path.read_text(encoding="utf-8"))
        content = msgspec.convert({} if plain is None else plain, AccountFile, strict=False)
        for account in content.accounts or ():
            if not account.access_key.strip() or not account.secret_key.strip():
                raise FormatError("an account has an empty accessKey or secretKey")  # noqa: TRY301 - as below
            account.acl()
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path} is not UTF-8 at byte {error.start}") from None
    except (FormatError, msgspec.ValidationError) as error:
        raise SettingsError(f"{path}: {error}") from None
    return content


def _create(directory: Directory, user: User, acl: Acl | None) -> None:
    directory.create(user)
    if acl is not None:
        directory.put_acl(acl)


def _file(home: Path) -> Path:
    return home / "conf" / "plain_acl.yml"


def _folder(home: Path) -> Path:
    return home / "conf" / "acl"


def _files(home: Path) -> Iterator[Path]:
    """Iterate over the files that exist, in one order."""
    if _file(home).exists():
        yield _file(home)
    yield from sorted(path for path in _folder(home).rglob("*") if path.suffix in _SUFFIXES)


def _stamps(home: Path) -> Stamps:
    """Return what differs once a file has been written."""
    return [(path, *_stamp(path.stat())) for path in _files(home)]


def _stamp(stat: os.stat_result) -> tuple[int, int, int]:
    return stat.st_mtime_ns, stat.st_size, stat.st_ino
