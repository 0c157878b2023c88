"""The proxies for gRPC clients as processes, in front of a name server's brokers: CometMQ's and RocketMQ's.

Each is a context manager that provides the address, ``host:port``, at which clients connect.
"""

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.interop import jvm, peers
from tests.interop.peers import HOST, free_port
from tests.interop.topics import create_topic

from cometmq.client.credentials import ACCESS_KEY_VARIABLE, SECRET_KEY_VARIABLE
from cometmq.net.tls.throwaway import CertificateFiles
from cometmq.wire.acl import Credentials

SILENT: Final = jvm.HERE / "grpc_proxy" / "logback.xml"
POM: Final = jvm.HERE / "grpc_proxy" / "pom.xml"
CLUSTER: Final = "DefaultCluster"
HEARTBEATS: Final = "DefaultHeartBeatSyncerTopic"
"""The topic of RocketMQ's proxies: one that has to create it ends if a broker takes three seconds for it."""


@contextlib.contextmanager
def cometmq_proxy(
    namesrv: str,
    certificate: CertificateFiles,
    credentials: Credentials | None = None,
    *,
    port: int | None = None,
) -> Iterator[str]:
    """Run ``cometmq proxy`` for a name server that runs already, plain and by TLS.

    Args:
        credentials: of a super user; with them it only serves clients that sign.
    """
    address = f"{HOST}:{port or free_port()}"
    tls = ("--grpc-tls-cert", str(certificate.cert), "--grpc-tls-key", str(certificate.key))
    options = ("--host", HOST, "--port", address.partition(":")[2], *tls)
    command = [peers.cometmq_program(), "proxy", "--namesrv", namesrv, *options]
    environment = dict(os.environ)
    if credentials is not None:
        command.append("--authenticate")
        environment[ACCESS_KEY_VARIABLE] = credentials.access_key
        environment[SECRET_KEY_VARIABLE] = credentials.secret_key
    with peers.Process(command, ready="ready: proxy ", environment=environment):
        yield address


@contextlib.contextmanager
def rocketmq_proxy(
    home: Path,
    namesrv: str,
    *,
    port: int | None = None,
    options: Sequence[str] = (*jvm.SMALL_HEAP, *jvm.QUICK_START),
) -> Iterator[tuple[str, int]]:
    """Run the real proxy in cluster mode for a name server and brokers that run already.

    Args:
        home: the folder of its settings and logs.
        options: Java's, beside those that it needs.

    Provides its address, and the id of its process.
    """
    home.mkdir(parents=True, exist_ok=True)
    asyncio.run(create_topic(namesrv, HEARTBEATS))
    address = f"{HOST}:{port or free_port()}"
    settings = {
        "rocketMQClusterName": CLUSTER,
        "proxyMode": "CLUSTER",
        "namesrvAddr": namesrv,
        "localServeAddr": HOST,
        "grpcServerPort": int(address.partition(":")[2]),
        "remotingListenPort": free_port(),
        "metricsExporterType": "DISABLE",
    }
    (home / "proxy.json").write_text(json.dumps(settings))
    command = jvm.command(
        "org.apache.rocketmq.proxy.ProxyStartup",
        *("-pm", "cluster", "-pc", home / "proxy.json"),
        home=home,
        options=(*options, *jvm.BROKER_OPENS),
        properties={"logback.configurationFile": str(SILENT)},
        pom=POM,
    )
    environment = jvm.environment(home) | {"RMQ_PROXY_HOME": str(home)}
    # It is killed: a clean stop takes it half a minute, and it keeps nothing.
    with peers.Process(
        command,
        ready="rocketmq-proxy startup successfully",
        environment=environment,
        ended_by=signal.SIGKILL,
    ) as process:
        yield address, process.pid


@contextlib.contextmanager
def proxy_of(
    product: str, home: Path, namesrv: str, certificate: CertificateFiles, *, port: int | None = None
) -> Iterator[str]:
    """Run the proxy of a product, which has its files in ``home``, and provide its address."""
    if product == "cometmq":
        with cometmq_proxy(namesrv, certificate, port=port) as address:
            yield address
    else:
        with rocketmq_proxy(home, namesrv, port=port) as (address, _):
            yield address
