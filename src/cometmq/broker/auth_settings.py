"""The settings of who may do what, with RocketMQ's names.

RocketMQ: ``AuthConfig.java``. Its classes of providers, strategies and caches cannot be chosen here.
"""

from typing import Annotated, ClassVar, Final

import msgspec
from msgspec import Meta

from cometmq.access.failures import FAILURES_MAX
from cometmq.errors import SettingsError
from cometmq.settings.values import SettingsGroup
from cometmq.wire.acl import Credentials
from cometmq.wire.frame import FRAME_LENGTH_MAX

_USER: Final = ("username", "password")
_KEYS: Final = ("accessKey", "secretKey")


class AuthSettings(SettingsGroup, frozen=True, kw_only=True, rename="camel"):
    """Authentication and authorization.

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
        acl_enable: whether the accounts of RocketMQ 4.x, in ``plain_acl.yml``, are users, and changes of that
            file take effect at once; needs ``authorization_enabled`` and ``rocketmq_home``.
        migrate_auth_from_v1_enabled: whether accounts of that file that are no users yet become some when the
            broker starts; needs the same.
        rocketmq_home: the directory that has ``conf/plain_acl.yml``, and ``conf/acl`` with more such files.
        users_max: most users that requests create. Not RocketMQ's, nor is what follows.
        acl_entries_max: most entries of a user's acl.
        failed_signatures_max: requests of an IP address in a minute that no known user has signed, before
            each further one closes its connection; 0 for any number.
        unsigned_frame_bytes_max: with ``authentication_enabled``: bytes of the longest frame of a connection
            before a known user has signed a request on it; 0 for the largest message with its header.
        unsigned_frame_timeout_ms: ms that the first frame of such a connection may take, and each later one.
        unsigned_requests_max: requests of such a connection that may be refused before it is closed; 0 for
            any number.
        unsigned_connections_max: such connections of an IP address before the oldest is closed; 0 for any
            number.
        insecure: whether the broker may listen where other machines reach it without
            ``authentication_enabled``: then whoever reaches it can read, send and delete everything.
    """

    secrets: ClassVar[frozenset[str]] = frozenset(
        ("init_authentication_user", "inner_client_authentication_credentials")
    )

    authentication_enabled: bool = False
    authorization_enabled: bool = False
    authentication_whitelist: str = ""
    authorization_whitelist: str = ""
    init_authentication_user: str = ""
    inner_client_authentication_credentials: str = ""
    acl_enable: bool = False
    migrate_auth_from_v1_enabled: bool = False
    rocketmq_home: str = ""
    users_max: Annotated[int, Meta(ge=1, le=1_000_000)] = 10_000
    acl_entries_max: Annotated[int, Meta(ge=1, le=100_000)] = 1_000
    failed_signatures_max: Annotated[int, Meta(ge=0)] = FAILURES_MAX
    unsigned_frame_bytes_max: Annotated[int, Meta(ge=0, le=FRAME_LENGTH_MAX)] = 0
    unsigned_frame_timeout_ms: Annotated[int, Meta(ge=1, le=2**31 - 1)] = 10_000
    unsigned_requests_max: Annotated[int, Meta(ge=0)] = 32
    unsigned_connections_max: Annotated[int, Meta(ge=0)] = 256
    insecure: bool = False

    def __post_init__(self) -> None:
        """Check each value, and what needs another one. Raises SettingsError."""
        if self.authorization_enabled and not self.authentication_enabled:
            raise SettingsError(
                "setting authorizationEnabled = true needs authenticationEnabled = true: without signatures "
                "nobody knows which user sends a request"
            )
        self._check_plain_acl()
        _ = self.unsigned_codes, self.allowed_codes, self.initial_user, self.inner_credentials

    def _check_plain_acl(self) -> None:
        used = [
            name
            for name, is_set in (
                ("aclEnable", self.acl_enable),
                ("migrateAuthFromV1Enabled", self.migrate_auth_from_v1_enabled),
            )
            if is_set
        ]
        if len(used) > 1:
            raise SettingsError(
                "settings aclEnable and migrateAuthFromV1Enabled are both true: plain_acl.yml stays in force "
                "with the one, its accounts become users with the other"
            )
        if used and not self.authorization_enabled:
            raise SettingsError(
                f"setting {used[0]} = true needs authenticationEnabled = true and authorizationEnabled = true"
            )
        if used and not self.rocketmq_home:
            raise SettingsError(
                f"setting {used[0]} = true needs rocketmqHome, the directory that has conf/plain_acl.yml"
            )

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
    except (msgspec.DecodeError, RecursionError, KeyError, SettingsError):  # their texts may hold the secret
        wanted = f'{{"{name}":"NAME","{secret}":"SECRET"}}'
        raise SettingsError(f"setting {setting} cannot be read: write {wanted}, both not empty") from None
