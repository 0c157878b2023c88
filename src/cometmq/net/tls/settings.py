"""The settings of TLS, of a broker's file or of RocketMQ's ``tls.properties``.

RocketMQ's servers have them as system properties of Java, or in the file ``tls.config.file``. Differences:

* without a certificate there is no TLS: RocketMQ's servers make one of their own, which nobody can check;
* a client's certificate that is shown is checked (``tls.server.authClient=true``);
* a broker checks the certificates of name servers, and their hosts, unless it is told not to.

Source: RocketMQ ``TlsSystemConfig.java``, ``TlsHelper.java``.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, ClassVar, Final

from msgspec import Meta

from cometmq.errors import FormatError, SettingsError
from cometmq.logs import get_logger
from cometmq.net.tls.client import TLS
from cometmq.settings.values import SettingsGroup
from cometmq.wire import settings_text

Milliseconds = Annotated[int, Meta(ge=1, le=600_000)]

_log = get_logger(__name__)


class TlsMode(StrEnum):
    """Which connections a server accepts: plain ones only, both kinds, or TLS only."""

    DISABLED = "disabled"
    PERMISSIVE = "permissive"
    ENFORCING = "enforcing"


class ClientAuth(StrEnum):
    """Whether a server asks clients for certificates, and whether they must show one."""

    NONE = "none"
    OPTIONAL = "optional"
    REQUIRE = "require"


class TlsSettings(SettingsGroup, frozen=True, kw_only=True, rename="camel"):
    """TLS of a broker or a name server; all files are in PEM form.

    Attributes:
        tls_server_mode: ``disabled``, ``permissive`` (both plain connections and TLS) or ``enforcing`` (TLS
            only); ``permissive`` if not given and there is a certificate, else ``disabled``.
        tls_server_cert_path: file of the server's certificate, followed by those that sign it.
        tls_server_key_path: file of its key; none if it is in the file of the certificate.
        tls_server_key_password: password of the key.
        tls_server_trust_cert_path: file of the authorities that sign clients' certificates.
        tls_server_need_client_auth: whether clients must show a certificate: ``none``, ``optional`` or
            ``require``.
        tls_ciphers: ciphers of TLS 1.2, as OpenSSL names them, separated by commas; none for the usual ones.
        tls_protocols: versions, separated by commas: ``TLSv1.2``, ``TLSv1.3``; none for both.
        tls_first_byte_timeout_ms: how long a new connection may send nothing before it is closed. Not
            RocketMQ's, as is the next one.
        tls_handshake_timeout_ms: how long its handshake may take.
        tls_enable: whether this broker connects to name servers by TLS; if not given, with ``enforcing``.
        tls_client_trust_cert_path: file of the authorities that sign the certificates of name servers; none
            for the system's.
        tls_client_cert_path: file of the certificate that this broker shows to name servers.
        tls_client_key_path: file of its key; none if it is in the file of the certificate.
        tls_client_key_password: password of the key.
        tls_client_auth_server: whether the certificates of name servers are checked. RocketMQ's default is
            false.
        tls_client_check_host: whether they must be for the hosts in ``namesrv_addr``. Not RocketMQ's, which
            never checks that.
    """

    secrets: ClassVar[frozenset[str]] = frozenset({"tls_server_key_password", "tls_client_key_password"})

    tls_server_mode: TlsMode | None = None
    tls_server_cert_path: str = ""
    tls_server_key_path: str = ""
    tls_server_key_password: str = ""
    tls_server_trust_cert_path: str = ""
    tls_server_need_client_auth: ClientAuth = ClientAuth.NONE
    tls_ciphers: str = ""
    tls_protocols: str = ""
    tls_first_byte_timeout_ms: Milliseconds = 10_000
    tls_handshake_timeout_ms: Milliseconds = 10_000
    tls_enable: bool | None = None
    tls_client_trust_cert_path: str = ""
    tls_client_cert_path: str = ""
    tls_client_key_path: str = ""
    tls_client_key_password: str = ""
    tls_client_auth_server: bool = True
    tls_client_check_host: bool = True

    @property
    def tls_mode(self) -> TlsMode:
        """The mode of the server's ports."""
        if self.tls_server_mode is not None:
            return self.tls_server_mode
        return TlsMode.PERMISSIVE if self.tls_server_cert_path else TlsMode.DISABLED

    @property
    def name_server_tls(self) -> TLS | None:
        """How this broker connects to name servers by TLS; None if it does not."""
        is_on = self.tls_mode is TlsMode.ENFORCING if self.tls_enable is None else self.tls_enable
        return self.client_tls if is_on else None

    @property
    def client_tls(self) -> TLS:
        """How this broker connects by TLS to those of whom it knows that they speak it."""
        return TLS(
            ca_file=self.tls_client_trust_cert_path or None,
            cert_file=self.tls_client_cert_path or None,
            key_file=self.tls_client_key_path or None,
            key_password=self.tls_client_key_password or None,
            check_host=self.tls_client_check_host,
            verify=self.tls_client_auth_server,
        )


_NAMES: Final = {
    "tls.server.mode": "tlsServerMode",
    "tls.server.certPath": "tlsServerCertPath",
    "tls.server.keyPath": "tlsServerKeyPath",
    "tls.server.keyPassword": "tlsServerKeyPassword",
    "tls.server.trustCertPath": "tlsServerTrustCertPath",
    "tls.server.need.client.auth": "tlsServerNeedClientAuth",
    "tls.ciphers": "tlsCiphers",
    "tls.protocols": "tlsProtocols",
    "tls.enable": "tlsEnable",
    "tls.client.trustCertPath": "tlsClientTrustCertPath",
    "tls.client.certPath": "tlsClientCertPath",
    "tls.client.keyPath": "tlsClientKeyPath",
    "tls.client.keyPassword": "tlsClientKeyPassword",
    "tls.client.authServer": "tlsClientAuthServer",
}
"""RocketMQ's names of settings that mean the same here."""
_TEST_MODE: Final = "tls.test.mode.enable"
_AUTH_CLIENT: Final = "tls.server.authClient"


def read_tls_properties(path: Path) -> dict[str, str]:
    """Read RocketMQ's ``tls.properties``; return the settings by their names here.

    Raises SettingsError: the file cannot be read, or asks for a certificate that nobody can check.
    """
    try:
        values = settings_text.decode(path.read_bytes())
    except (OSError, FormatError) as error:
        raise SettingsError(f"TLS settings file {path} cannot be read: {error}") from None
    if values.pop(_TEST_MODE, "false").lower() == "true":
        raise SettingsError(
            f"TLS settings file {path}: {_TEST_MODE}=true has a server make a certificate that nobody can "
            "check: give tls.server.certPath and tls.server.keyPath instead, or use cometmq dev --tls"
        )
    if values.pop(_AUTH_CLIENT, "true").lower() != "true" and values.get("tls.server.need.client.auth"):
        _log.warning("%s: %s=false has no effect: certificates are always checked", path, _AUTH_CLIENT)
    if unknown := sorted(values.keys() - _NAMES.keys()):
        _log.warning("%s: settings that have no effect here: %s", path, ", ".join(unknown))
    return {_NAMES[name]: value for name, value in values.items() if name in _NAMES and value}
