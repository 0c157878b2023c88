"""All settings of a broker, with RocketMQ's names and defaults, read from TOML or from its ``broker.conf``.

One file holds the broker's settings and the store's, by names without groups. What becomes of those of a
Java broker that are not honoured is in ``cometmq.settings.foreign``. A known name with an illegal value stops
the start.
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from cometmq.broker import settings_by_subject as by_subject
from cometmq.broker.auth_settings import AuthSettings
from cometmq.errors import SettingsError
from cometmq.logs import get_logger
from cometmq.net.address import parse_address
from cometmq.net.settings_file import read_file
from cometmq.net.tls.client import TLS
from cometmq.net.tls.settings import TlsMode, TlsSettings
from cometmq.replication.settings import BrokerRole, ReplicationSettings
from cometmq.settings import foreign
from cometmq.settings.values import SettingsGroup, flat_fields, settings_from
from cometmq.store import settings as store_settings
from cometmq.store.settings import StoreSettings

_log = get_logger(__name__)


class BrokerSettings(SettingsGroup, frozen=True, kw_only=True, rename="camel"):
    """The broker's settings by subject, and a few that belong to none; intervals in ms.

    Attributes:
        broker_permission: the permission of the broker: 4 read + 2 write.
        store_path_root_dir: the store's directory.
        region_id: the property ``MSG_REGION`` of messages.
        trace_on: the property ``TRACE_ON`` of messages.
        notify_consumer_ids_changed_enable: whether consumers are notified when the members of their group
            change.
        flush_consumer_offset_interval: interval at which committed offsets are saved.
        flush_delay_offset_interval: interval at which the offsets of delivered delayed messages are saved.
        store_reply_message_enable: whether replies to requests are stored, besides pushing them to the
            producers of the requests.
        server_channel_max_idle_time_seconds: silence after which any connection is closed, s.
        max_connections: most connections; others are closed at once. 0 for as many as the process's
            descriptors allow, half of which (8,192 at most) are for files and a part is kept back.
    """

    identity: by_subject.IdentitySettings = msgspec.field(default_factory=by_subject.IdentitySettings)
    network: by_subject.NetworkSettings = by_subject.NetworkSettings()
    broker_permission: Annotated[int, Meta(ge=0, le=7)] = 6
    store_path_root_dir: str = "cometmq-data"
    topics: by_subject.TopicSettings = by_subject.TopicSettings()
    region_id: str = "DefaultRegion"
    trace_on: bool = True
    pulls: by_subject.PullSettings = by_subject.PullSettings()
    filters: by_subject.FilterSettings = by_subject.FilterSettings()
    notify_consumer_ids_changed_enable: bool = True
    flush_consumer_offset_interval: by_subject.Milliseconds = 5_000
    flush_delay_offset_interval: by_subject.Milliseconds = 10_000
    idempotence: by_subject.IdempotenceSettings = by_subject.IdempotenceSettings()
    store_reply_message_enable: bool = True
    recalls: by_subject.RecallSettings = by_subject.RecallSettings()
    assignments: by_subject.AssignmentSettings = by_subject.AssignmentSettings()
    pop: by_subject.PopSettings = by_subject.PopSettings()
    transactions: by_subject.TransactionSettings = by_subject.TransactionSettings()
    registration: by_subject.RegistrationSettings = by_subject.RegistrationSettings()
    overload: by_subject.OverloadSettings = by_subject.OverloadSettings()
    flow: by_subject.FlowSettings = by_subject.FlowSettings()
    bodies: by_subject.BodySettings = by_subject.BodySettings()
    clients: by_subject.ClientSettings = by_subject.ClientSettings()
    server_channel_max_idle_time_seconds: Annotated[int, Meta(ge=1, le=86_400)] = 120
    max_connections: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0
    metrics: by_subject.MetricsSettings = by_subject.MetricsSettings()
    replication: ReplicationSettings = ReplicationSettings()
    tls: TlsSettings = TlsSettings()
    auth: AuthSettings = AuthSettings()

    @property
    def ha_tls(self) -> TLS | None:
        """How a slave connects to its master by TLS; None if it does not."""
        is_on = self.replication.ha_tls_enable
        is_on = self.tls.tls_mode is TlsMode.ENFORCING if is_on is None else is_on
        return self.tls.client_tls if is_on else None

    def __post_init__(self) -> None:
        """Check the number of the broker against its role. Raises SettingsError."""
        role, number = self.replication, self.identity.broker_id
        is_role = role.is_slave == (number > 0) and number >= 0
        if not is_role and not role.enable_controller_mode:
            raise SettingsError(
                f"brokerId = {number} with brokerRole = {role.broker_role}: a master's is 0, that of "
                "a slave (brokerRole = SLAVE) above 0"
            )


class Settings(NamedTuple):
    """The settings of one file: see ``checked``."""

    broker: BrokerSettings
    store: StoreSettings

    def checked(self) -> Self:
        """Return the settings. Raises SettingsError if one of the store's does not go with the broker's."""
        role = self.broker.replication
        is_alone = role.broker_role is BrokerRole.ASYNC_MASTER and not role.enable_controller_mode
        if self.store.duplication_enable and not is_alone:
            raise SettingsError(
                f"duplicationEnable = true with brokerRole = {role.broker_role} and enableControllerMode = "
                f"{str(role.enable_controller_mode).lower()}: another program replicates this store, as a "
                "Java broker has no HA service with it; set ASYNC_MASTER and false, or leave it out"
            )
        return self

    def of_role(self) -> Self:
        """Return the settings as they hold: what a slave acknowledges must outlive it, so it has no pool."""
        if not self.broker.replication.is_slave:
            return self
        return self._replace(store=replace(self.store, transient_store_pool_enable=False))


def load(
    path: Path | None,
    overrides: Mapping[str, Any] | None = None,
    *,
    defaults: Mapping[str, Any] | None = None,
    ignored: Collection[str] = (),
) -> Settings:
    """Read ``path`` (TOML by its suffix, else ``key=value`` lines), then apply ``overrides`` by name.

    Args:
        defaults: values of settings that neither contains.
        ignored: names of settings that do not stop the start, though what they say is not done.

    Raises SettingsError if the file cannot be read, or a setting in it cannot be used.
    """
    values = dict(defaults or {})
    given = overrides or {}
    values |= {} if path is None else read_file(path)
    if "storePathRootDir" in given:
        values = store_settings.for_store(values, Path(given["storePathRootDir"]))
    values |= given
    foreign.check(values, ignored)
    for note in foreign.notes_on(values, known_names()):
        _log.warning("%s: %s", path, note)
    return Settings(from_properties(values), store_settings.from_properties(values)).checked()


def from_properties(values: Mapping[str, Any]) -> BrokerSettings:
    """Build the broker's settings from names and values as in a file; other names are ignored.

    Raises SettingsError that names the setting, its value and its limit.
    """
    settings = settings_from(BrokerSettings, values)
    for address in settings.network.name_servers:
        parse_address(address)  # an illegal one would be retried for ever
    return settings


def known_names() -> frozenset[str]:
    """Return the names of all settings of broker and store in files."""
    return (
        frozenset(field.encode_name for field in flat_fields(BrokerSettings)) | store_settings.known_names()
    )


def shown_properties(settings: Settings) -> dict[str, str]:
    """Return all settings as ``as_properties`` does, for GET_BROKER_CONFIG: without the secrets."""
    return as_properties(settings, shows_secrets=False)


def as_properties(settings: Settings, *, shows_secrets: bool = True) -> dict[str, str]:
    """Return all settings by their names in files, as text, sorted."""
    values = settings.broker.in_files(shows_secrets=shows_secrets) | settings.store.in_files()
    return {name: _text(value) for name, value in sorted(values.items()) if value is not None}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
