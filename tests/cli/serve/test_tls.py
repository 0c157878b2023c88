import asyncio
import os
import re
import signal
import ssl
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.certificates import Authority
from tests.cli.conftest import Process, Run
from tests.consuming import Basket

from cometmq import TLS, Consumer, Message, Producer, Start
from cometmq.net.tls.throwaway import CertificateFiles

LIMIT_S = 60


def test_dev_makes_a_certificate_that_clients_can_trust(cometmq: Run, tmp_path: Path) -> None:
    store = tmp_path / "store"
    for more in ((), ("--tls-mode", "enforcing")):
        with Process("dev", "--tls", "--port", "0", "--store", str(store), *more) as process:
            line = process.line()
            ready = re.fullmatch(r"ready: .* name server (\S+), .* certificate (.+) \(--tls-ca\)", line)
            assert ready and ready[2] == str(store / "tls" / "cert.pem")
            assert stat.S_IMODE((store / "tls" / "key.pem").stat().st_mode) == 0o600
            to_it = ("--namesrv", ready[1])
            assert cometmq("send", "T", "hidden", *to_it, "--tls-ca", ready[2]).code == 0
            plain = cometmq("topic", "list", *to_it)
            assert plain.failed(1, "accepts TLS only") if more else plain.code == 0
            ended = process.kill(signal.SIGTERM)
            assert ended.code == 0 and "Traceback" not in ended.err


def test_a_name_server_and_a_broker_have_certificates_of_the_users_own(cometmq: Run, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, key = map(str, authority.certify())
    config = tmp_path / "tls.properties"
    config.write_text(
        f"tls.server.mode=enforcing\ntls.server.certPath={cert}\ntls.server.keyPath={key}\n"
        f"tls.client.trustCertPath={authority.cert}\n"
    )
    with Process("namesrv", "--port", "0", "--tls-cert", cert, "--tls-key", key) as namesrv:
        address = namesrv.line().removeprefix("ready: name server ")
        arguments = ("--tls-config", str(config), "--port", "0", "--namesrv", address)
        with Process("broker", *arguments, "--store", str(tmp_path / "s")) as broker:
            assert broker.line().startswith("ready: ")
            to_it = ("--namesrv", address, "--tls-ca", str(authority.cert))
            assert cometmq("send", "T", "hidden", *to_it).code == 0
            assert cometmq("send", "T", "plain", "--namesrv", address).failed(1, "accepts TLS only")


@pytest.mark.parametrize("command", ["broker", "namesrv", "dev"])
def test_files_that_cannot_be_used_end_the_start_before_anything_is_opened(
    cometmq: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    authority = Authority(tmp_path)
    one, other = authority.certify(), authority.certify()
    monkeypatch.chdir(tmp_path)
    for arguments, words in (
        (("--tls-cert", "missing.pem"), "missing.pem cannot be read"),
        (("--tls-cert", str(one.cert), "--tls-key", str(other.key)), "the key of another certificate"),
        (("--tls-mode", "enforcing"), "tlsServerMode=enforcing needs a certificate"),
        (("--tls-config", "missing.properties"), "missing.properties cannot be read"),
    ):
        ended = cometmq(command, "--port", "0", *arguments)
        last = ended._replace(err=ended.err.splitlines()[-1] + "\n")
        assert last.failed(2, words)
    assert not (tmp_path / "cometmq-data").exists()


def test_the_broker_of_dev_trusts_the_name_server_beside_it_whatever_its_certificate_is_for(
    cometmq: Run, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    cert, key = map(str, authority.certify("elsewhere.test"))
    given = ("--tls-cert", cert, "--tls-key", key, "--tls-mode", "enforcing", "--store", str(tmp_path / "s"))
    with Process("dev", "--port", "0", *given) as process:
        ready = re.fullmatch(r"ready: .* name server (\S+), store .*", process.line())
        assert ready
        to_it = ("--namesrv", ready[1], "--tls-ca", str(authority.cert))
        assert cometmq("send", "T", "x", *to_it).failed(1, "--tls-any-host")
        assert cometmq("send", "T", "x", *to_it, "--tls-any-host").code == 0


def test_a_certificate_is_made_or_given(cometmq: Run) -> None:
    assert cometmq("dev", "--tls", "--tls-cert", "c.pem").failed(2, "leave it out with --tls-cert")


class Senders:
    """Producers that send one message after the other, most of them with new connections for each few.

    Attributes:
        sent: the bodies of the messages that the broker has acknowledged.
    """

    def __init__(self, name_server: str, tls: TLS) -> None:
        self.sent: list[bytes] = []
        self._name_server = name_server
        self._tls = tls
        self._stopping = asyncio.Event()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            for number in range(3):
                group.create_task(self._send(b"new %d" % number, per_connection=20))
            group.create_task(self._send(b"old", per_connection=None))
            yield
            self._stopping.set()

    async def _send(self, kind: bytes, per_connection: int | None) -> None:
        number = 0
        while not self._stopping.is_set():
            async with Producer(self._name_server, tries=1, tls=self._tls) as producer:
                while not self._stopping.is_set():
                    body = b"%b %d" % (kind, number)
                    await producer.send(Message("orders", body))
                    self.sent.append(body)
                    number += 1
                    if per_connection and number % per_connection == 0:
                        break


class Renewal:
    """The certificate of a running ``cometmq dev``, and ways to renew it."""

    def __init__(self, process: Process, authority: Authority, files: CertificateFiles) -> None:
        self._process = process
        self._authority = authority
        self._files = files
        ready = re.fullmatch(r"ready: broker (\S+), name server (\S+), .*", process.line())
        assert ready
        self.servers = ready.groups()

    async def replace(self) -> None:
        """Replace one file after the other: for a moment the key is not the certificate's."""
        renewed = self._authority.certify()
        os.replace(renewed.key, self._files.key)
        os.replace(renewed.cert, self._files.cert)
        await self._until_shown()

    async def write(self) -> None:
        """Write into the files."""
        self._authority.certify(renews=self._files.cert.parent)
        await self._until_shown()

    async def write_nonsense(self) -> None:
        """Write what is no certificate, and wait until the servers have logged that."""
        self._files.cert.write_text("nonsense")
        for _ in self.servers:
            while "changed TLS files are not used" not in await asyncio.to_thread(self._process.told):
                pass

    async def _until_shown(self) -> None:
        """Wait until new connections to each server are shown the certificate in the file."""
        trusted = str(self._authority.cert)
        async with asyncio.timeout(LIMIT_S):
            for host, _, port in (address.rpartition(":") for address in self.servers):
                address = host, int(port)
                shown = ""
                while shown != self._files.cert.read_text():
                    shown = await asyncio.to_thread(ssl.get_server_certificate, address, ca_certs=trusted)


def test_certificates_are_renewed_under_load_without_a_lost_message(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    made = authority.certify()
    tls = TLS(ca_file=authority.cert)
    basket = Basket()

    async def main(renewal: Renewal) -> None:
        name_server = renewal.servers[1]
        senders = Senders(name_server, tls)
        consumer = Consumer(name_server, "g", start=Start.FIRST, tls=tls)
        consumer.subscribe("orders", basket.put)
        async with consumer:
            async with senders.running():
                for renew in (renewal.replace, renewal.write, renewal.write_nonsense, renewal.write):
                    await renew()
                    await asyncio.wait_for(basket.has(len(basket.messages) + 100), LIMIT_S)
            received = await asyncio.wait_for(basket.has(len(senders.sent)), LIMIT_S)
        assert sorted(received) == sorted(senders.sent)
        print(f"{len(received)} messages")

    certificate = ("--tls-cert", str(made.cert), "--tls-key", str(made.key), "--tls-mode", "enforcing")
    with Process("dev", *certificate, "--port", "0", "--store", str(tmp_path / "s")) as process:
        asyncio.run(main(Renewal(process, authority, made)))
        assert process.kill(signal.SIGTERM).code == 0
