"""Who may use the servers that commands run."""

import json
import signal
from pathlib import Path

import pytest
from tests.cli.conftest import Process, Run

from cometmq import Credentials, Message
from cometmq.blocking import Producer
from cometmq.broker.settings import BrokerSettings
from cometmq.cli.serve.access import access_in_dev, name_server_access
from cometmq.errors import RemoteError, SettingsError
from cometmq.namesrv.access import NameServerAccess

INNER = '{"accessKey":"inner","secretKey":"hidden"}'


def test_the_options_of_a_name_server_are_its_access() -> None:
    users = Path("users.json")
    found = name_server_access(users=users, closed_routes=True, cluster="c", insecure=False)
    assert found == NameServerAccess(users, closed_routes=True, cluster="c")
    with pytest.raises(SettingsError, match="--closed-routes needs --users"):
        name_server_access(users=None, closed_routes=True, cluster="c", insecure=False)


def test_without_authentication_dev_is_for_all() -> None:
    assert access_in_dev(BrokerSettings()) == NameServerAccess()
    assert access_in_dev(BrokerSettings.of(insecure=True)) == NameServerAccess(insecure=True)


def test_with_it_the_name_server_of_dev_has_the_users_of_the_broker(tmp_path: Path) -> None:
    settings = BrokerSettings.of(
        authentication_enabled=True,
        store_path_root_dir=str(tmp_path),
        broker_cluster_name="c",
        init_authentication_user='{"username":"admin","password":"hidden"}',
        inner_client_authentication_credentials=INNER,
    )
    access = access_in_dev(settings)
    assert access.directory is not None and access.cluster == "c"
    assert [user.name for user in access.directory.users()] == ["admin", "inner"]


def test_a_user_that_is_added_or_disabled_in_dev_is_so_at_once(
    cometmq: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "broker.conf"
    first = '{"username":"admin","password":"hidden"}'
    config.write_text(
        "authenticationEnabled=true\nauthorizationEnabled=true\n"
        f"initAuthenticationUser={first}\ninnerClientAuthenticationCredentials={INNER}\n"
    )
    where = ("--port", "0", "--config", str(config), "--store", str(tmp_path / "store"), "--json")
    with Process("dev", *where) as dev:
        address = json.loads(dev.line())["name_server"]

        def run(user: str, *command: str) -> tuple[int, str]:
            monkeypatch.setenv("COMETMQ_ACCESS_KEY", user)
            monkeypatch.setenv("COMETMQ_SECRET_KEY", "hidden")
            ran = cometmq(*command, "--namesrv", address, text="hidden\n")
            return ran.code, ran.err

        for _ in range(3):
            assert run("admin", "user", "add", "yan", "--type", "super", "--password-stdin")[0] == 0
            assert run("yan", "topic", "list") == (0, "")
            assert run("admin", "user", "update", "yan", "--disable")[0] == 0
            code, said = run("yan", "topic", "list")
            assert code != 0 and "User:yan is disabled" in said
            assert run("admin", "user", "remove", "yan")[0] == 0


@pytest.mark.parametrize(("options", "servers"), [((), ["the name server", "broker"]), (("--tls",), [])])
def test_dev_warns_of_signatures_without_tls_on_an_address_that_others_reach(
    tmp_path: Path, options: tuple[str, ...], servers: list[str]
) -> None:
    config = tmp_path / "broker.conf"
    config.write_text(f"authenticationEnabled=true\ninnerClientAuthenticationCredentials={INNER}\n")
    where = ("--host", "0.0.0.0", "--port", "0", "--config", str(config), "--store", str(tmp_path / "s"))
    with Process("dev", *where, *options) as dev:
        dev.line()
        said = dev.kill(signal.SIGTERM).err.splitlines()
    warnings = [line for line in said if "signed and not encrypted" in line]
    assert len(warnings) == len(servers)
    for server, line in zip(servers, warnings, strict=True):
        assert " WARNING " in line and f": {server}" in line and "Demand TLS by --tls-cert" in line


def test_with_it_a_broker_that_could_not_register_does_not_start() -> None:
    with pytest.raises(SettingsError, match="needs innerClientAuthenticationCredentials"):
        access_in_dev(BrokerSettings.of(authentication_enabled=True))


def test_a_name_server_with_closed_routes_tells_only_its_users_where_topics_are(tmp_path: Path) -> None:
    users = tmp_path / "users.json"
    users.write_text(json.dumps({"users": {"inner": {"password": "hidden", "type": "Super"}}}))
    users.chmod(0o600)
    config = tmp_path / "broker.conf"
    config.write_text(f"innerClientAuthenticationCredentials={INNER}\n")
    options = ("--port", "0", "--json")
    with Process("namesrv", *options, "--users", str(users), "--closed-routes") as name_server:
        address = json.loads(name_server.line())["name_server"]
        store = ("--config", str(config), "--store", str(tmp_path / "store"))
        with Process("broker", *options, *store, "--namesrv", address) as broker:
            broker.line()
            with Producer(address, credentials=Credentials("inner", "hidden")) as producer:
                producer.send(Message("Orders", b"signed"))
            with Producer(address) as stranger, pytest.raises(RemoteError, match="username cannot be null"):
                stranger.queues("Orders")
