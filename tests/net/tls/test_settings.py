"""The settings of TLS, and those of RocketMQ's file."""

import logging
from pathlib import Path

import pytest

from cometmq.errors import SettingsError
from cometmq.net.tls.client import TLS
from cometmq.net.tls.settings import ClientAuth, TlsMode, TlsSettings, read_tls_properties
from cometmq.settings.values import settings_from


@pytest.mark.parametrize(
    ("settings", "mode", "to_name_servers"),
    [
        (TlsSettings(), TlsMode.DISABLED, None),
        (TlsSettings(tls_server_cert_path="c"), TlsMode.PERMISSIVE, None),
        (TlsSettings(tls_server_mode=TlsMode.ENFORCING), TlsMode.ENFORCING, TLS()),
        (TlsSettings(tls_server_mode=TlsMode.ENFORCING, tls_enable=False), TlsMode.ENFORCING, None),
        (TlsSettings(tls_server_mode=TlsMode.DISABLED, tls_server_cert_path="c"), TlsMode.DISABLED, None),
        (TlsSettings(tls_enable=True), TlsMode.DISABLED, TLS()),
    ],
)
def test_the_mode_follows_from_what_is_given(
    settings: TlsSettings, mode: TlsMode, to_name_servers: TLS | None
) -> None:
    assert (settings.tls_mode, settings.name_server_tls) == (mode, to_name_servers)


def test_a_broker_checks_its_name_servers_as_it_is_told() -> None:
    settings = TlsSettings(
        tls_enable=True,
        tls_client_trust_cert_path="ca",
        tls_client_cert_path="cert",
        tls_client_key_path="key",
        tls_client_key_password="secret",
        tls_client_auth_server=False,
        tls_client_check_host=False,
    )
    assert settings.name_server_tls == TLS(
        ca_file="ca",
        cert_file="cert",
        key_file="key",
        key_password="secret",
        check_host=False,
        verify=False,
    )
    assert "secret" not in repr(settings) and "'***'" in repr(settings)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"tlsServerMode": "strict"}, "setting tlsServerMode = 'strict'"),
        ({"tlsServerNeedClientAuth": "yes"}, "setting tlsServerNeedClientAuth = 'yes'"),
        ({"tlsHandshakeTimeoutMs": "0"}, "setting tlsHandshakeTimeoutMs = '0'"),
    ],
)
def test_a_value_that_cannot_be_used_is_named(values: dict[str, str], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        settings_from(TlsSettings, values)


FILE = """
# of a Java broker
tls.test.mode.enable=false
tls.server.mode=enforcing
tls.server.need.client.auth=require
tls.server.keyPath=/etc/rocketmq/server.key
tls.server.keyPassword=secret
tls.server.certPath=/etc/rocketmq/server.pem
tls.server.trustCertPath=/etc/rocketmq/ca.pem
tls.server.authClient=false
tls.client.authServer=false
tls.client.trustCertPath=
tls.provider=OPENSSL
"""


def test_rocketmqs_own_file_is_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "tls.properties"
    path.write_text(FILE)
    with caplog.at_level(logging.WARNING):
        settings = settings_from(TlsSettings, read_tls_properties(path))
    assert settings == TlsSettings(
        tls_server_mode=TlsMode.ENFORCING,
        tls_server_need_client_auth=ClientAuth.REQUIRE,
        tls_server_key_path="/etc/rocketmq/server.key",
        tls_server_key_password="secret",
        tls_server_cert_path="/etc/rocketmq/server.pem",
        tls_server_trust_cert_path="/etc/rocketmq/ca.pem",
        tls_client_auth_server=False,
    )
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == [
        "tls.server.authClient=false has no effect: certificates are always checked",
        "settings that have no effect here: tls.provider",
    ]


def test_a_certificate_that_nobody_can_check_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tls.properties"
    path.write_text("tls.test.mode.enable=true\n")
    with pytest.raises(SettingsError, match=r"tls.server.certPath and tls.server.keyPath instead"):
        read_tls_properties(path)
    with pytest.raises(SettingsError, match="cannot be read"):
        read_tls_properties(tmp_path / "missing.properties")
