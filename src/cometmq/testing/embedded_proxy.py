"""The gRPC proxy of an embedded broker, for tests of programs with RocketMQ 5 clients."""

from cometmq.errors import SettingsError
from cometmq.extras import require
from cometmq.net import inproc
from cometmq.net.tls.settings import TlsSettings
from cometmq.wire.acl import Credentials

require("proxy", "grpc_endpoint")

from cometmq.proxy.proxy import Proxy  # noqa: E402 it needs what was just checked
from cometmq.proxy.settings import ProxySettings  # noqa: E402 as above


async def start_proxy(
    host: str, name_server: str, tls: TlsSettings, credentials: Credentials | None
) -> Proxy:
    """Start a proxy at any free port; with credentials it checks signatures.

    Raises SettingsError: the broker has no sockets.
    """
    if host == inproc.HOST:
        raise SettingsError("grpc_endpoint: give EmbeddedBroker sockets=True, which clients by gRPC need")
    proxy = Proxy(
        [name_server],
        host,
        0,
        credentials=credentials,
        settings=ProxySettings(tls=tls),
        authenticate=credentials is not None,
    )
    await proxy.start()
    return proxy
