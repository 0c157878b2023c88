"""Sends and receives of RocketMQ's Python client that outlive their broker and their proxy."""

import asyncio
import signal
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from tests.interop import peers, proxies
from tests.interop.grpc_clients.clients import Run, texts
from tests.interop.grpc_clients.cluster import create_topic, handed_out, stored
from tests.interop.patience import wait_until
from tests.interop.programs import Line

from cometmq.net.tls.throwaway import CertificateFiles

pytestmark = pytest.mark.interop

RESTART_COUNT: Final = 400

Progress = Callable[[str, str], Coroutine[Any, Any, int]]
"""Counts what a program has done so far, by name server and by the name of topic and group."""


@pytest.mark.parametrize(
    ("product", "proxy_product"),
    [
        ("cometmq", "cometmq"),
        pytest.param("rocketmq", "cometmq", marks=pytest.mark.interop_long),
        pytest.param("rocketmq", "rocketmq", marks=pytest.mark.interop_long),
    ],
)
def test_what_was_stored_arrives_although_the_broker_is_killed_and_the_proxy_restarts(
    product: str, proxy_product: str, certificate: CertificateFiles, tmp_path: Path, run_python: Run
) -> None:
    broker_port, proxy_port, topic = peers.free_port(), peers.free_port(), "Restarts"
    proxy = f"{peers.HOST}:{proxy_port}"
    store = tmp_path / "store"

    @contextmanager
    def running(namesrv: str) -> Iterator[None]:
        start = peers.START_BROKER[product]
        with (
            start(store, namesrv, peers.PATIENT, port=broker_port, ended_by=signal.SIGKILL) as broker,
            proxies.proxy_of(proxy_product, tmp_path / "proxy", namesrv, certificate, port=proxy_port),
        ):
            create_topic(broker, topic)
            yield

    with peers.START_NAMESRV[product](tmp_path / "namesrv") as namesrv, ThreadPoolExecutor(1) as pool:

        def over_restarts(program: str, progress: Progress) -> list[Line]:
            with running(namesrv):
                run_python("send", proxy, topic, *texts({"body": "0"}))  # starts the client's process
                begun = pool.submit(run_python, program, proxy, topic, topic, RESTART_COUNT)
                wait_until(lambda: asyncio.run(progress(namesrv, topic)) >= RESTART_COUNT // 4)
            with running(namesrv):
                return begun.result()

        sent = over_restarts("send_all", stored)
        assert any(line["tries"] > 1 for line in sent), "the proxy was never missing"
        received = over_restarts("receive_all", handed_out)
        assert {line["body"] for line in received} == {str(number) for number in range(RESTART_COUNT)}
