"""The gRPC proxy that ``cometmq dev`` runs beside its broker."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from cometmq.cli.serve.child import child_proxy
from cometmq.client.credentials import ACCESS_KEY_VARIABLE, SECRET_KEY_VARIABLE
from cometmq.extras import require
from cometmq.net.tls.settings import TlsMode

if TYPE_CHECKING:
    from cometmq.broker.settings import BrokerSettings

_log = logging.getLogger(__name__)


@asynccontextmanager
async def proxy_beside(settings: "BrokerSettings", name_server: str, port: int) -> AsyncIterator[str]:
    """Run a proxy for the broker with these settings, on its host; provide the proxy's address.

    It checks signatures if the broker does, and offers TLS if the broker does.

    Raises MissingExtra; SettingsError if it does not start, for which it has printed the reason.
    """
    require("proxy", "cometmq dev --grpc-port")
    where = ("--namesrv", name_server, "--host", settings.bind_address, "--port", str(port))
    options = (*where, *_tls(settings), *_access(settings))
    async with child_proxy(*options, environment=_credentials(settings), on_end=_log_end) as ready:
        yield ready["proxy"]


def _log_end(code: int) -> None:
    _log.error("the gRPC proxy has ended with %d; the broker goes on without it", code)


def _tls(settings: "BrokerSettings") -> list[str]:
    """Return the options of TLS: the broker's certificate, and how to reach a broker that demands TLS."""
    if settings.tls_mode is TlsMode.DISABLED:
        return []
    options = ["--grpc-tls-mode", settings.tls_mode.value, "--grpc-tls-cert", settings.tls_server_cert_path]
    if settings.tls_server_key_path:
        options += ["--grpc-tls-key", settings.tls_server_key_path]
    if settings.tls_mode is TlsMode.ENFORCING:
        options += ["--tls-ca", settings.tls_server_cert_path, "--tls-any-host"]
    return options


def _access(settings: "BrokerSettings") -> list[str]:
    if settings.authentication_enabled:
        return ["--authenticate"]
    return ["--insecure"] if settings.insecure else []


def _credentials(settings: "BrokerSettings") -> dict[str, str]:
    """Return the variables by which the proxy signs its own requests."""
    own = settings.inner_credentials if settings.authentication_enabled else None
    return {} if own is None else {ACCESS_KEY_VARIABLE: own.access_key, SECRET_KEY_VARIABLE: own.secret_key}
