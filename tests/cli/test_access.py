from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from tests.certificates import Authority
from tests.cli.conftest import Run
from tests.live import Live, in_thread

from cometmq.cli.access import access, access_options
from cometmq.namesrv.access import NameServerAccess
from cometmq.net.tls.client import TLS
from cometmq.net.tls.settings import TlsMode
from cometmq.wire.acl import Credentials


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture(autouse=True)
def _nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the credentials of whoever runs the tests."""
    for name in ("COMETMQ_ACCESS_KEY", "COMETMQ_SECRET_KEY", "COMETMQ_CREDENTIALS", "ROCKETMQ_HOME"):
        monkeypatch.delenv(name, raising=False)


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


def given(*arguments: str, **environment: str) -> Any:
    """Return the TLS that a command's options come to."""
    return access_of(*arguments, **environment)["tls"]


def credentials(*arguments: str, **environment: str) -> Any:
    """Return the credentials that a command's options come to."""
    return access_of(*arguments, **environment)["credentials"]


def access_of(*arguments: str, **environment: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = []

    @click.command()
    @access_options
    def command() -> None:
        found.append(access())

    ran = CliRunner().invoke(command, arguments, env=environment, catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    return found[0]


def test_without_options_connections_are_plain_also_outside_of_commands() -> None:
    assert (given(), access()) == (None, {"credentials": None, "tls": None})


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


def test_credentials_come_from_a_file_else_from_the_environment_else_from_rocketmqs_tools(
    tmp_path: Path,
) -> None:
    own, tools = tmp_path / "own.yml", tmp_path / "conf" / "tools.yml"
    tools.parent.mkdir()
    own.write_text("accessKey: own\nsecretKey: hidden\n")
    tools.write_text("accessKey: tools\nsecretKey: hidden\n")
    home = {"ROCKETMQ_HOME": str(tmp_path)}
    environment = {"COMETMQ_ACCESS_KEY": "user", "COMETMQ_SECRET_KEY": "hidden"}
    assert credentials("--credentials", str(own), **home, **environment) == Credentials("own", "hidden")
    assert credentials(COMETMQ_CREDENTIALS=str(own), **environment) == Credentials("own", "hidden")
    assert credentials(**home, **environment) is None  # the client reads them itself
    assert credentials(**home) == Credentials("tools", "hidden")
    tools.unlink()
    assert credentials(**home) is None


def test_a_file_without_credentials_is_refused_where_it_is_given(cometmq: Run, tmp_path: Path) -> None:
    path = tmp_path / "empty.yml"
    path.write_text("# nothing\n")
    assert cometmq("topic", "list", "--credentials", str(path)).failed(2, "empty.yml", "no accessKey")
    assert cometmq("topic", "list", "--credentials", "away.yml").failed(2, "away.yml", "No such file")


def test_commands_sign_what_they_ask(cometmq: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    users, own = tmp_path / "users.json", tmp_path / "own.yml"
    users.write_text('{"users": {"admin": {"password": "hidden", "type": "Super"}}}')
    users.chmod(0o600)
    own.write_text("accessKey: admin\nsecretKey: hidden\n")
    inner = '{"accessKey": "admin", "secretKey": "hidden"}'
    with in_thread(
        tmp_path / "store",
        access=NameServerAccess(users, closed_routes=True),
        inner_client_authentication_credentials=inner,
    ) as live:
        monkeypatch.setenv("NAMESRV_ADDR", live.name_server)
        assert cometmq("topic", "list").failed(1, "username cannot be null")
        monkeypatch.setenv("COMETMQ_CREDENTIALS", str(own))
        assert cometmq("topic", "create", "T").code == 0
        assert cometmq("send", "T", "hidden").code == 0
        assert [one["body"] for one in cometmq("consume", "T", "--json").values] == ["hidden"]
        (line,) = cometmq("cluster", "--json").values[0]
        assert line["trouble"] is None
