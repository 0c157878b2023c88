"""The settings of who may do what, with RocketMQ's names.

RocketMQ: ``AuthConfig.java``. Its classes of providers, strategies and caches cannot be chosen here.
"""

from typing import ClassVar, Final

import msgspec

from cometmq.errors import SettingsError
from cometmq.net.tls.settings import TlsSettings
from cometmq.wire.acl import Credentials

_USER: Final = ("username", "password")
_KEYS: Final = ("accessKey", "secretKey")


class AuthSettings(TlsSettings, frozen=True, kw_only=True, rename="camel"):
    """Authentication and authorization, besides TLS.

    Attributes:
        authentication_enabled: whether each request must be signed by a user.
        authorization_enabled: whether its user must be allowed to do what it asks for; needs
            ``authentication_enabled``.
        authentication_whitelist: codes of requests that need no signature, separated by commas.
        authorization_whitelist: codes of requests that each user may send.
        init_authentication_user: a user that may do everything, created when the broker starts if there is
            none of that name: ``{"username":"NAME","password":"SECRET"}``.
        inner_client_authentication_credentials: with what the broker signs its own requests, to name servers
            for example: ``{"accessKey":"NAME","secretKey":"SECRET"}``. This user may do everything, and is
            created like that one.
        insecure: whether the broker may listen where other machines reach it without
            ``authentication_enabled``: then whoever reaches it can read, send and delete everything. Not
            RocketMQ's.
    """

    secrets: ClassVar[frozenset[str]] = TlsSettings.secrets | {
        "init_authentication_user",
        "inner_client_authentication_credentials",
    }

    authentication_enabled: bool = False
    authorization_enabled: bool = False
    authentication_whitelist: str = ""
    authorization_whitelist: str = ""
    init_authentication_user: str = ""
    inner_client_authentication_credentials: str = ""
    insecure: bool = False

    def __post_init__(self) -> None:
        """Check each value, and what needs another one. Raises SettingsError."""
        if self.authorization_enabled and not self.authentication_enabled:
            raise SettingsError(
                "setting authorizationEnabled = true needs authenticationEnabled = true: without signatures "
                "nobody knows which user sends a request"
            )
        _ = self.unsigned_codes, self.allowed_codes, self.initial_user, self.inner_credentials

    @property
    def unsigned_codes(self) -> frozenset[int]:
        """The codes of the requests that need no signature."""
        return _codes("authenticationWhitelist", self.authentication_whitelist)

    @property
    def allowed_codes(self) -> frozenset[int]:
        """The codes of the requests that each user may send."""
        return _codes("authorizationWhitelist", self.authorization_whitelist)

    @property
    def initial_user(self) -> Credentials | None:
        """The user to create if there is none of that name; None if none is to be created."""
        return _credentials("initAuthenticationUser", self.init_authentication_user, _USER)

    @property
    def inner_credentials(self) -> Credentials | None:
        """The credentials of the broker's own requests; None if it does not sign them."""
        return _credentials(
            "innerClientAuthenticationCredentials", self.inner_client_authentication_credentials, _KEYS
        )


def _codes(setting: str, text: str) -> frozenset[int]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    for part in parts:
        if not part.isdecimal():
            raise SettingsError(f"setting {setting}: {part!r}: give codes of requests, as in 105,34")
    return frozenset(map(int, parts))


def _credentials(setting: str, text: str, keys: tuple[str, str]) -> Credentials | None:
    if not text:
        return None
    name, secret = keys
    try:
        values = msgspec.json.decode(text, type=dict[str, str])
        return Credentials(values[name], values[secret])
    except (msgspec.DecodeError, KeyError, SettingsError):  # their texts may hold the secret
        wanted = f'{{"{name}":"NAME","{secret}":"SECRET"}}'
        raise SettingsError(f"setting {setting} cannot be read: write {wanted}, both not empty") from None
