"""The gRPC proxy and the console that ``cometmq dev`` runs beside its broker."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from cometmq.cli.serve.child import child_server
from cometmq.client.credentials import ACCESS_KEY_VARIABLE, SECRET_KEY_VARIABLE
from cometmq.logs import get_logger
from cometmq.net.tls.settings import TlsMode, TlsSettings

if TYPE_CHECKING:
    from cometmq.broker.auth_settings import AuthSettings
    from cometmq.broker.settings import BrokerSettings

_log = get_logger(__name__)


@asynccontextmanager
async def proxy_beside(settings: "BrokerSettings", name_server: str, port: int) -> AsyncIterator[str]:
    """Run a proxy for the broker with these settings, on its host; provide the proxy's address.

    It checks signatures if the broker does, and offers TLS if the broker does.

    Raises SettingsError if it does not start, for which it has printed the reason.
    """
    where = ("--namesrv", name_server, "--host", settings.network.bind_address, "--port", str(port))
    options = (*where, *_tls(settings.tls), *_access(settings.auth))
    end = partial(_log_end, "gRPC proxy")
    async with child_server("proxy", *options, environment=_credentials(settings.auth), on_end=end) as ready:
        yield ready["proxy"]


@asynccontextmanager
async def console_beside(settings: "BrokerSettings", name_server: str, port: int) -> AsyncIterator[str]:
    """Run a console for the broker with these settings, on its host; provide the console's address.

    Visitors must sign in if the broker checks signatures. Raises as ``proxy_beside``.
    """
    options = ["--namesrv", name_server, "--host", settings.network.bind_address, "--port", str(port)]
    if settings.auth.authentication_enabled:
        options.append("--login")
    elif settings.auth.insecure:
        options.append("--insecure")
    options += _to_broker(settings.tls)
    end = partial(_log_end, "console")
    async with child_server("console", *options, environment={}, on_end=end) as ready:
        yield ready["console"]


def _log_end(what: str, code: int) -> None:
    _log.error("the %s has ended with %d; the broker goes on without it", what, code)


def _tls(settings: TlsSettings) -> list[str]:
    """Return the options of TLS: the broker's certificate, and how to reach a broker that demands TLS."""
    if settings.tls_mode is TlsMode.DISABLED:
        return []
    options = ["--grpc-tls-mode", settings.tls_mode.value, "--grpc-tls-cert", settings.tls_server_cert_path]
    if settings.tls_server_key_path:
        options += ["--grpc-tls-key", settings.tls_server_key_path]
    return [*options, *_to_broker(settings)]


def _to_broker(settings: TlsSettings) -> list[str]:
    """Return the options by which a client reaches a broker that demands TLS."""
    if settings.tls_mode is not TlsMode.ENFORCING:
        return []
    return ["--tls-ca", settings.tls_server_cert_path, "--tls-any-host"]


def _access(settings: "AuthSettings") -> list[str]:
    if settings.authentication_enabled:
        return ["--authenticate"]
    return ["--insecure"] if settings.insecure else []


def _credentials(settings: "AuthSettings") -> dict[str, str]:
    """Return the variables by which the proxy signs its own requests."""
    own = settings.inner_credentials if settings.authentication_enabled else None
    return {} if own is None else {ACCESS_KEY_VARIABLE: own.access_key, SECRET_KEY_VARIABLE: own.secret_key}
