import re
import signal
import stat
from pathlib import Path

import pytest
from tests.certificates import Authority
from tests.cli.conftest import Process, Run


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


def test_a_certificate_is_made_or_given(cometmq: Run) -> None:
    assert cometmq("dev", "--tls", "--tls-cert", "c.pem").failed(2, "leave it out with --tls-cert")
