from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from tests.certificates import Authority
from tests.cli.conftest import Run
from tests.live import Live, in_thread

from cometmq.cli.access import access, tls_options
from cometmq.net.tls.client import TLS
from cometmq.net.tls.settings import TlsMode


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def enforcing(authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Live]:
    """Servers that accept TLS only, and the environment in which commands find them."""
    made = authority.certify()
    with in_thread(
        tmp_path / "store",
        tls_server_mode=TlsMode.ENFORCING,
        tls_server_cert_path=str(made.cert),
        tls_server_key_path=str(made.key),
        tls_client_trust_cert_path=str(authority.cert),
    ) as live:
        monkeypatch.setenv("NAMESRV_ADDR", live.name_server)
        yield live


def given(*arguments: str, **environment: str) -> TLS | None:
    """Return the TLS that a command's options come to."""
    found: list[TLS | None] = []

    @click.command()
    @tls_options
    def command() -> None:
        found.append(access()["tls"])

    ran = CliRunner().invoke(command, arguments, env=environment, catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    return found[0]


def test_without_options_connections_are_plain_also_outside_of_commands() -> None:
    assert (given(), access()) == (None, {"tls": None})


def test_each_option_means_tls() -> None:
    assert given("--tls") == TLS()
    assert given("--tls-ca", "ca.pem") == TLS(ca_file=Path("ca.pem"))
    assert given("--tls-any-host") == TLS(check_host=False)
    assert given("--tls-insecure") == TLS(verify=False)
    assert given("--tls-cert", "c.pem", "--tls-key", "k.pem", COMETMQ_TLS_KEY_PASSWORD="secret") == TLS(
        cert_file=Path("c.pem"), key_file=Path("k.pem"), key_password="secret"
    )


def test_the_environment_may_say_it_for_all_commands() -> None:
    assert given(COMETMQ_TLS="1", COMETMQ_TLS_CA="ca.pem") == TLS(ca_file=Path("ca.pem"))


def test_commands_reach_servers_that_accept_tls_only(
    cometmq: Run, enforcing: Live, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusting = ("--tls-ca", str(authority.cert))
    assert cometmq("topic", "create", "T", *trusting).code == 0
    assert cometmq("send", "T", "hidden", "--key", "k", *trusting).code == 0
    assert [one["body"] for one in cometmq("consume", "T", "--json", *trusting).values] == ["hidden"]
    assert [one["body"] for one in cometmq("tail", "T", "--no-follow", "--json", *trusting).values] == [
        "hidden"
    ]
    assert cometmq("store", "status", "--broker", enforcing.broker, *trusting).code == 0
    monkeypatch.setenv("COMETMQ_TLS_CA", str(authority.cert))
    (found,) = cometmq("message", "find", "--topic", "T", "--key", "k", "--json").values
    assert found["body"] == "hidden"
    (line,) = cometmq("cluster", "--json").values[0]
    assert line["trouble"] is None


def test_a_command_without_them_or_without_trust_says_what_to_give(cometmq: Run, enforcing: Live) -> None:
    assert cometmq("topic", "list").failed(1, "accepts TLS only")
    assert cometmq("topic", "list", "--tls").failed(1, enforcing.name_server, "--tls-ca")
    assert cometmq("topic", "list", "--tls-ca", "missing.pem").failed(2, "missing.pem cannot be read")
    assert cometmq("topic", "list", "--tls-insecure").code == 0
