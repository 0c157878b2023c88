from pathlib import Path
from typing import Any

import pytest
from tests.kit.accounts import account, put, users_of

from cometmq.access.users import User, UserType
from cometmq.broker.auth.opening import open_users
from cometmq.broker.auth_settings import AuthSettings
from cometmq.errors import AccessError, SettingsError
from cometmq.io.files import Disk

ON: dict[str, Any] = {"authentication_enabled": True, "authorization_enabled": True}
FIRST = '{"username":"admin","password":"secret"}'
INNER = '{"accessKey":"inner","secretKey":"secret"}'


async def test_the_users_of_the_settings_are_created_once_and_never_changed(tmp_path: Path) -> None:
    settings = AuthSettings(
        **ON, init_authentication_user=FIRST, inner_client_authentication_credentials=INNER
    )
    users = open_users(settings, Disk(), tmp_path)
    assert users.directory.users() == [
        User("admin", "secret", UserType.SUPER),
        User("inner", "secret", UserType.SUPER),
    ]
    users.directory.update("admin", password="changed", type=UserType.NORMAL)
    await users.tables.stop()
    again = open_users(settings, Disk(), tmp_path)
    assert again.directory.find("admin") == User("admin", "changed")
    assert (tmp_path / "config" / "users.json").stat().st_mode & 0o777 == 0o600


async def test_followed_accounts_are_users_and_in_no_file_of_the_broker(tmp_path: Path) -> None:
    put(tmp_path, "accounts:\n" + account("plain"))
    settings = AuthSettings(
        **ON, acl_enable=True, rocketmq_home=str(tmp_path), init_authentication_user=FIRST
    )
    users = open_users(settings, Disk(), tmp_path / "store")
    assert users_of(users.directory) == ["admin", "plain"] and users.plain_acl is not None
    with pytest.raises(AccessError, match="change it there"):
        users.tables.check_own("plain")
    await users.tables.stop()
    without = open_users(AuthSettings(**ON), Disk(), tmp_path / "store")
    assert users_of(without.directory) == ["admin"] and without.plain_acl is None


async def test_migrated_accounts_stay_when_their_file_is_gone(tmp_path: Path) -> None:
    path = put(tmp_path, "accounts:\n" + account("plain"))
    settings = AuthSettings(**ON, migrate_auth_from_v1_enabled=True, rocketmq_home=str(tmp_path))
    users = open_users(settings, Disk(), tmp_path / "store")
    await users.tables.stop()
    path.unlink()
    assert users_of(open_users(AuthSettings(**ON), Disk(), tmp_path / "store").directory) == ["plain"]


async def test_a_file_of_accounts_that_is_missing_stops_the_start(tmp_path: Path) -> None:
    settings = AuthSettings(**ON, acl_enable=True, rocketmq_home=str(tmp_path / "nowhere"))
    with pytest.raises(SettingsError, match="see rocketmqHome"):
        open_users(settings, Disk(), tmp_path / "store")
