"""The settings of who may do what: RocketMQ's names, checked at the start; secrets are never shown."""

from typing import Any

import msgspec
import pytest

from cometmq.broker.settings import BrokerSettings, Settings, from_properties, shown_properties
from cometmq.errors import SettingsError
from cometmq.store.settings import StoreSettings
from cometmq.wire.acl import Credentials

INNER = '{"accessKey":"inner","secretKey":"hidden1"}'
FIRST = '{"username":"admin","password":"hidden2"}'


def test_rocketmqs_own_texts_are_read() -> None:
    found = from_properties(
        {
            "authenticationEnabled": "true",
            "authorizationEnabled": "true",
            "authenticationWhitelist": "105, 34",
            "authorizationWhitelist": "",
            "initAuthenticationUser": FIRST,
            "innerClientAuthenticationCredentials": INNER,
        }
    )
    assert found.auth.authentication_enabled and found.auth.authorization_enabled
    assert found.auth.unsigned_codes == {105, 34}
    assert found.auth.allowed_codes == frozenset()
    assert found.auth.initial_user == Credentials("admin", "hidden2")
    assert found.auth.inner_credentials == Credentials("inner", "hidden1")


def test_nothing_given_means_no_authentication_and_no_credentials() -> None:
    found = BrokerSettings()
    assert not (found.auth.authentication_enabled or found.auth.authorization_enabled or found.auth.insecure)
    assert found.auth.initial_user is None and found.auth.inner_credentials is None


def test_authorization_without_authentication_is_refused() -> None:
    with pytest.raises(SettingsError, match="authorizationEnabled = true needs authenticationEnabled"):
        BrokerSettings.of(authorization_enabled=True)


@pytest.mark.parametrize("name", ["aclEnable", "migrateAuthFromV1Enabled"])
def test_accounts_of_4_x_need_authorization_and_their_home(name: str) -> None:
    with pytest.raises(SettingsError, match=f"{name} = true needs authenticationEnabled = true and"):
        from_properties({name: "true", "authenticationEnabled": "true"})
    on = {"authenticationEnabled": "true", "authorizationEnabled": "true", name: "true"}
    with pytest.raises(SettingsError, match=f"{name} = true needs rocketmqHome"):
        from_properties(on)
    assert from_properties(on | {"rocketmqHome": "home"}).auth.rocketmq_home == "home"


def test_accounts_of_4_x_are_either_followed_or_migrated() -> None:
    on = {"authenticationEnabled": "true", "authorizationEnabled": "true", "rocketmqHome": "home"}
    with pytest.raises(SettingsError, match="aclEnable and migrateAuthFromV1Enabled are both true"):
        from_properties(on | {"aclEnable": "true", "migrateAuthFromV1Enabled": "true"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("authenticationWhitelist", "105,x"),
        ("authorizationWhitelist", "-1"),
        ("initAuthenticationUser", "admin:hidden"),
        ("initAuthenticationUser", '{"username":"admin","password":""}'),
        ("innerClientAuthenticationCredentials", '{"accessKey":"inner","secretKey":["hidden"]}'),
        ("innerClientAuthenticationCredentials", FIRST),
        ("innerClientAuthenticationCredentials", '{"a":' * 100_000),
    ],
)
def test_a_value_that_cannot_be_used_stops_the_start_without_being_shown(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=f"^setting {name}") as caught:
        from_properties({name: value})
    assert "hidden" not in str(caught.value)


def test_secrets_are_neither_in_the_text_of_settings_nor_in_what_operators_get() -> None:
    values: dict[str, Any] = {
        "init_authentication_user": FIRST,
        "inner_client_authentication_credentials": INNER,
    }
    settings = BrokerSettings.of(**values)
    shown = shown_properties(Settings(settings, StoreSettings()))
    assert shown["initAuthenticationUser"] == shown["innerClientAuthenticationCredentials"] == "***"
    assert "hidden" not in f"{settings} {settings!r} {shown}"
    assert settings.auth.inner_client_authentication_credentials == INNER
    assert msgspec.convert(msgspec.to_builtins(settings), BrokerSettings) == settings


def test_what_is_not_set_is_shown_as_empty() -> None:
    shown = shown_properties(Settings(BrokerSettings(), StoreSettings()))
    assert shown["initAuthenticationUser"] == shown["innerClientAuthenticationCredentials"] == ""
