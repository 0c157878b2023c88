"""The settings of an embedded broker: small files, and who may reach it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from cometmq.broker.settings import BrokerSettings
from cometmq.net.tls.client import TLS
from cometmq.net.tls.throwaway import make_certificate
from cometmq.store.settings import StoreSettings
from cometmq.wire.acl import Credentials

BROKER_NAME: Final = "embedded"
ROOT: Final = Path("/embedded")
STORE: Final = StoreSettings(
    mapped_file_size_commit_log=1 << 24,
    mapped_file_size_consume_queue=20 * 1000,
    max_hash_slot_num=1000,
    max_index_num=4000,
)
"""Files that are created quickly, and are large enough for the largest message."""


def broker_settings(host: str, port: int, name_server: str, others: Mapping[str, Any]) -> BrokerSettings:
    """Return the settings of a broker at an address, with these others."""
    return BrokerSettings.of(
        broker_name=BROKER_NAME,
        bind_address=host,
        listen_port=port,
        namesrv_addr=name_server,
        store_path_root_dir=str(ROOT),
        enable_property_filter=True,
        vip_channel_enable=False,  # a second port that another process may be about to use
        recall_message_enable=True,
        **others,
    )


def user_settings(credentials: Credentials) -> dict[str, Any]:
    """Return the settings of a broker that checks each request, and knows one super user."""
    user = {"username": credentials.access_key, "password": credentials.secret_key}
    return {
        "authentication_enabled": True,
        "authorization_enabled": True,
        "init_authentication_user": json.dumps(user),
    }


def made_tls(directory: Path) -> tuple[TLS, dict[str, Any]]:
    """Create a certificate; return how clients trust it, and the settings of servers that show it.

    Raises SettingsError: there is no program ``openssl``.
    """
    made = make_certificate(directory)
    settings = {"tls_server_cert_path": str(made.cert), "tls_server_key_path": str(made.key)}
    return TLS(ca_file=made.cert), settings
