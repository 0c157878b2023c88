"""The programs of RocketMQ 5's own clients, and the proxies by which they run."""

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache, partial
from pathlib import Path

import pytest
from tests.certificates import Authority
from tests.interop import jvm, proxies
from tests.interop.grpc_clients.clients import (
    POM,
    PROGRAMS,
    Client,
    Run,
    node_with_client,
    programs_of,
    python_with_client,
    rust_programs,
)
from tests.interop.patience import PATIENCE_S
from tests.interop.peers import Peer
from tests.interop.programs import Line

from cometmq.net.tls.throwaway import CertificateFiles


@pytest.fixture(scope="session")
def run_python(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Run a program of ``grpc_clients/programs.py`` and return the lines that it yielded."""
    programs = str(PROGRAMS / "programs.py")
    yield from programs_of(tmp_path_factory.mktemp("python"), lambda: [str(python_with_client()), programs])


@pytest.fixture(scope="session")
def run_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Run a program of ``grpc_clients/node`` and return the lines that it told."""
    yield from programs_of(
        tmp_path_factory.mktemp("node"),
        lambda: [jvm.path_of("node"), str(node_with_client() / "programs.js")],
    )


@pytest.fixture(scope="session")
def run_rust() -> Run:
    """Run a program of ``grpc_clients/rust`` and return the lines that it printed, without its logs."""

    def run(program: str, *arguments: object) -> list[Line]:
        command = [str(rust_programs()), program, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    return run


@pytest.fixture(scope="session")
def proxy_product(request: pytest.FixtureRequest) -> str:
    """Whose proxy the clients connect to."""
    return str(request.param)


@pytest.fixture
def client(request: pytest.FixtureRequest, proxy_product: str) -> Client:
    run = request.getfixturevalue(f"run_{request.param.lower()}")
    return Client(request.param, "" if proxy_product == "cometmq" else "Theirs", run)


@pytest.fixture
def run_java(tmp_path: Path) -> Run:
    """Run a program of ``grpc_clients/java`` and return the lines that it printed."""
    programs = (PROGRAMS / "java", jvm.PROGRAMS / "Launch.java", jvm.PROGRAMS / "Lines.java")
    return partial(jvm.run, home=tmp_path, programs=programs, pom=POM, timeout_s=PATIENCE_S)


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> CertificateFiles:
    return Authority(tmp_path_factory.mktemp("certificates")).certify()


@pytest.fixture(scope="session")
def shared_proxies(
    certificate: CertificateFiles, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str, str], str]]:
    """Return what starts a product's proxy for a name server when it is asked for first."""
    with ExitStack() as running:

        @cache
        def of_name_server(product: str, namesrv: str) -> str:
            home = tmp_path_factory.mktemp("proxy")
            return running.enter_context(proxies.proxy_of(product, home, namesrv, certificate))

        yield of_name_server


@pytest.fixture
def proxy(broker: Peer, proxy_product: str, shared_proxies: Callable[[str, str], str]) -> str:
    return shared_proxies(proxy_product, broker.namesrv)


@pytest.fixture
def asking_proxy(asking_broker: Peer, proxy_product: str, shared_proxies: Callable[[str, str], str]) -> str:
    return shared_proxies(proxy_product, asking_broker.namesrv)
