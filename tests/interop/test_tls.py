"""TLS between both products: clients and brokers of either side, by certificates that an authority signed.

RocketMQ's servers make a certificate of their own, and its clients trust any, unless they are told otherwise
by system properties.
"""

import asyncio
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.certificates import Authority
from tests.interop import peers
from tests.interop.groups import in_group
from tests.interop.jvm import Run
from tests.interop.peers import Peer

from cometmq import TLS, Message, Producer, PullConsumer
from cometmq.admin.topics import TopicAdmin
from cometmq.errors import NetworkError, TLSError

pytestmark = pytest.mark.interop

COUNT = 1_000
KINDS = 4  # sync, async, oneway, batch


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


def server_settings(authority: Authority, mode: str) -> dict[str, object]:
    made = authority.certify()
    return peers.PATIENT | {
        "tlsServerMode": mode,
        "tlsServerCertPath": made.cert,
        "tlsServerKeyPath": made.key,
        "tlsClientTrustCertPath": authority.cert,
    }


@contextmanager
def java_servers(store: Path, tls: TLS, properties: Mapping[str, object]) -> Iterator[Peer]:
    """Run a Java name server and a Java broker with properties of TLS."""
    options = [f"-D{name}={value}" for name, value in properties.items()]
    more: dict[str, Any] = {
        "heap": (*peers.HEAP, *options),
        "context": tls.context(),
        "ended_by": signal.SIGKILL,
    }
    with (
        peers.rocketmq_namesrv(store.with_name("namesrv"), options=options) as namesrv,
        peers.rocketmq_broker(store, namesrv, peers.PATIENT, **more) as peer,
    ):
        yield peer


@pytest.fixture(scope="session")
def servers(
    authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str, str], Peer]]:
    """Return what starts servers by product and mode, when they are asked for first."""
    with ExitStack() as running:

        @cache
        def of(name: str, mode: str) -> Peer:
            store = tmp_path_factory.mktemp(f"{name}-{mode}") / "store"
            if name == "cometmq":
                return running.enter_context(peers.cometmq(store, server_settings(authority, mode)))
            return running.enter_context(java_servers(store, TLS(verify=False), {"tls.server.mode": mode}))

        yield of


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        pytest.param("rocketmq", "permissive", id="permissive-@rocketmq_tls", marks=pytest.mark.interop_long),
        pytest.param("rocketmq", "enforcing", id="enforcing-@rocketmq_tls"),
        pytest.param("cometmq", "permissive", id="permissive-@cometmq_tls"),
        pytest.param("cometmq", "enforcing", id="enforcing-@cometmq_tls"),
    ],
)
def test_java_clients_send_and_receive_by_tls(
    name: str, mode: str, servers: Callable[[str, str], Peer], run_java: Run
) -> None:
    peer = servers(name, mode)
    sent, pushed, pulled, places = run_java(
        "SendAndReceive", peer.namesrv, "Tls", COUNT, properties={"tls.enable": "true"}
    )
    print(f"\n{name} {mode}: {sent}\n  {pushed}\n  {pulled}")
    assert sent == {"sent": KINDS * COUNT, "answered": (KINDS - 1) * COUNT, "failed": []}
    assert pulled["received"] == KINDS * COUNT
    assert places["misplaced"] == []


@pytest.mark.parametrize("name", [in_group(name, "tls") for name in peers.START])
def test_mqadmin_works_by_tls(
    name: str, servers: Callable[[str, str], Peer], tmp_path: Path, run_java: Run
) -> None:
    peer = servers(name, "enforcing")
    commands = tmp_path / "commands"
    commands.write_text(f"updateTopic -b {peer.broker} -t Administered\ntopicList\n")
    made, listed = run_java("Mqadmin", peer.namesrv, commands, properties={"tls.enable": "true"})
    assert f"create topic to {peer.broker} success" in made["output"]
    assert "Administered" in listed["output"].split()


@pytest.mark.parametrize("name", [in_group("cometmq", "tls")])
def test_a_java_client_and_a_broker_of_ours_check_each_other(
    name: str, authority: Authority, tmp_path: Path, run_java: Run
) -> None:
    own = authority.certify("java")
    settings = server_settings(authority, "enforcing") | {
        "tlsServerNeedClientAuth": "require",
        "tlsServerTrustCertPath": authority.cert,
        "tlsClientCertPath": own.cert,
        "tlsClientKeyPath": own.key,
    }
    properties = {
        "tls.enable": "true",
        "tls.test.mode.enable": "false",
        "tls.client.authServer": "true",
        "tls.client.trustCertPath": str(authority.cert),
        "tls.client.certPath": str(own.cert),
        "tls.client.keyPath": str(own.key),
    }
    with peers.START[name](tmp_path / "store", settings) as peer:
        printed = run_java("Send", peer.namesrv, "Mutual", "mutual", 10, properties=properties)
        assert len(printed) == 10
        trusted = str(Authority(tmp_path, "stranger").cert)
        trusts_another = properties | {"tls.client.trustCertPath": trusted}
        old = authority.certify("java", ends_in=-timedelta(days=1))
        shows_an_old_one = properties | {
            "tls.client.certPath": str(old.cert),
            "tls.client.keyPath": str(old.key),
        }
        for wrong in (trusts_another, shows_an_old_one):
            with pytest.raises(AssertionError, match="Exception"):
                run_java("Send", peer.namesrv, "Mutual", "refused", 1, properties=wrong)


@pytest.mark.parametrize("name", [in_group("cometmq", "tls")])
def test_a_plain_java_client_gets_nothing_where_tls_is_enforced(
    name: str, servers: Callable[[str, str], Peer], run_java: Run
) -> None:
    namesrv = servers(name, "enforcing").namesrv
    with pytest.raises(AssertionError, match="Exception"):
        run_java("Send", namesrv, "Plain", "plain", 1, properties={"tls.enable": "false"})


@pytest.mark.parametrize("name", [in_group("rocketmq", "tls")])
def test_our_clients_and_a_broker_of_ours_talk_to_java_servers_by_tls(
    name: str, servers: Callable[[str, str], Peer], tmp_path: Path
) -> None:
    peer = servers(name, "enforcing")
    tls = TLS(verify=False)  # a Java server makes its own certificate

    async def main() -> None:
        async with Producer(peer.namesrv, tls=tls) as producer:
            await producer.send_many(Message("Ours", b"%d" % number) for number in range(COUNT))
        async with PullConsumer(peer.namesrv, "ours", tls=tls) as consumer:
            queues = await consumer.queues("Ours")
            found = [message.body for queue in queues async for message in consumer.messages(queue)]
        assert sorted(found) == sorted(b"%d" % number for number in range(COUNT))
        async with Producer(peer.namesrv) as plain:
            with pytest.raises(NetworkError):
                await plain.send(Message("Ours", b"plain"))
        async with TopicAdmin(peer.namesrv, tls=tls) as admin:
            assert set((await admin.info()).brokers) >= {"by-tls"}

    settings = {"brokerName": "by-tls", "tlsEnable": "true", "tlsClientAuthServer": "false"}
    with peers.cometmq_broker(tmp_path / "store", peer.namesrv, settings, context=tls.context()):
        asyncio.run(main())


@pytest.mark.parametrize("name", [in_group("rocketmq", "tls")])
def test_our_clients_and_java_servers_check_each_other(
    name: str, authority: Authority, tmp_path: Path
) -> None:
    assert name == "rocketmq"
    made, own = authority.certify(), authority.certify("ours")
    tls = TLS(ca_file=authority.cert, cert_file=own.cert, key_file=own.key)
    properties = {
        "tls.server.mode": "enforcing",
        "tls.test.mode.enable": "false",
        "tls.server.certPath": made.cert,
        "tls.server.keyPath": made.key,
        "tls.server.need.client.auth": "require",
        "tls.server.authClient": "true",
        "tls.server.trustCertPath": authority.cert,
        "tls.client.certPath": own.cert,
        "tls.client.keyPath": own.key,
        "tls.client.authServer": "true",
        "tls.client.trustCertPath": authority.cert,
    }
    old = authority.certify("ours", ends_in=-timedelta(days=1))
    wrong = [
        (replace(tls, ca_file=Authority(tmp_path, "stranger").cert), "ca_file, --tls-ca"),
        (replace(tls, cert_file=None, key_file=None), r"requires one \(cert_file, --tls-cert\)"),
        (replace(tls, cert_file=old.cert, key_file=old.key), "does not accept this client's certificate"),
        (None, "accepts TLS only"),
    ]

    async def main(namesrv: str) -> None:
        async with Producer(namesrv, tls=tls) as producer:
            await producer.send(Message("Checked", b"ours"))
        for other, words in wrong:
            async with TopicAdmin(namesrv, tls=other) as admin:
                with pytest.raises(NetworkError, match=words) as caught:
                    await admin.info()
                print(f"\n{caught.value!r}")

    with java_servers(tmp_path / "store", tls, properties) as peer:
        asyncio.run(main(peer.namesrv))


@pytest.mark.parametrize(
    ("certified", "words"),
    [
        ({"ends_in": -timedelta(days=1)}, "certificate has expired; the server needs a new one"),
        ({"hosts": ("elsewhere.test",)}, "--tls-any-host"),
    ],
)
def test_a_java_server_whose_certificate_does_not_hold_is_not_talked_to(
    certified: dict[str, Any], words: str, authority: Authority, tmp_path: Path
) -> None:
    made = authority.certify(*certified.pop("hosts", ()), **certified)
    options = [
        "-Dtls.server.mode=enforcing",
        "-Dtls.test.mode.enable=false",
        f"-Dtls.server.certPath={made.cert}",
        f"-Dtls.server.keyPath={made.key}",
    ]

    async def main(namesrv: str) -> None:
        async with TopicAdmin(namesrv, tls=TLS(ca_file=authority.cert)) as admin:
            with pytest.raises(TLSError, match=words):
                await admin.info()

    with peers.rocketmq_namesrv(tmp_path, options=options) as namesrv:
        asyncio.run(main(namesrv))


@pytest.mark.parametrize("name", [in_group("cometmq", "tls")])
def test_a_java_broker_registers_with_our_name_server_by_tls(
    name: str, servers: Callable[[str, str], Peer], authority: Authority, tmp_path: Path
) -> None:
    namesrv = servers(name, "enforcing").namesrv
    heap = (*peers.HEAP, "-Dtls.server.mode=enforcing")
    settings = peers.PATIENT | {"brokerName": "java"}

    tls = TLS(ca_file=authority.cert)

    async def brokers() -> set[str]:
        async with TopicAdmin(namesrv, tls=tls) as admin:
            return set((await admin.info()).brokers)

    more: dict[str, Any] = {"heap": heap, "context": tls.context(), "ended_by": signal.SIGKILL}
    with peers.rocketmq_broker(tmp_path / "store", namesrv, settings, **more):
        assert "java" in asyncio.run(brokers())
