"""The users of a broker when it starts: from its files, from ``plain_acl.yml`` and from its settings."""

from pathlib import Path
from typing import NamedTuple

from cometmq.access.directory import Directory
from cometmq.access.users import User, UserType
from cometmq.broker.auth.plain_acl import PlainAcl, migrate
from cometmq.broker.auth.requests import AccessRequests
from cometmq.broker.auth.tables import ACLS, USERS, AccessTables
from cometmq.broker.auth_settings import AuthSettings
from cometmq.broker.reads import Reads
from cometmq.broker.request_body import RequestBodies
from cometmq.format.layout import config_path
from cometmq.io.files import FileLayer
from cometmq.store.tables import JsonTable


class BrokerUsers(NamedTuple):
    """The users and acls of a broker.

    Attributes:
        tables: saves them.
        plain_acl: the followed accounts of ``plain_acl.yml``; None if it is not followed.
    """

    settings: AuthSettings
    directory: Directory
    tables: AccessTables
    plain_acl: PlainAcl | None

    def requests(self, reads: Reads, bodies: RequestBodies) -> AccessRequests:
        """Return the part that answers requests about them."""
        return AccessRequests(self.directory, self.tables, self.settings, reads, bodies)

    def secret_of_super(self, name: str) -> str | None:
        """Return the secret of an enabled user who may do all; None if that is not one."""
        user = self.directory.find(name)
        return user.password if user is not None and user.is_enabled and user.is_super else None


def open_users(
    settings: AuthSettings, files: FileLayer, root: Path, directory: Directory | None = None
) -> BrokerUsers:
    """Read the users and acls of a broker, and create those of its settings that are missing.

    Needs a running loop, in which they are saved.

    Args:
        directory: the directory to fill, if another server of this process checks requests by it, too.

    Raises:
        StoreDamaged: a table of them cannot be used.
        SettingsError: a file of accounts cannot be used.
    """
    directory = Directory() if directory is None else directory
    users, acls = (JsonTable(files, config_path(root, name), private=True) for name in (USERS, ACLS))
    home = Path(settings.rocketmq_home)
    plain_acl = PlainAcl(home, directory) if settings.acl_enable else None
    if plain_acl is None:
        tables = AccessTables(directory, users, acls)
        tables.load()
    else:
        tables = AccessTables(directory, users, acls, plain_acl.is_account, plain_acl.apply)
        tables.load()
        plain_acl.load()
    if settings.migrate_auth_from_v1_enabled:
        migrate(home, directory)
    for credentials in (settings.initial_user, settings.inner_credentials):
        if credentials is not None and directory.find(credentials.access_key) is None:
            directory.create(User(credentials.access_key, credentials.secret_key, UserType.SUPER))
    return BrokerUsers(settings, directory, tables, plain_acl)
