import socket
from pathlib import Path

import pytest

from cometmq.broker import settings
from cometmq.errors import SettingsError

BROKER_CONF = """
# Licensed to nobody
brokerClusterName = OtherCluster
brokerName=broker-a
brokerIP1=10.0.0.1
listenPort=30911
namesrvAddr=10.0.0.2:9876; 10.0.0.3:9876
deleteWhen = 04
autoCreateTopicEnable=false
brokerRole = ASYNC_MASTER
sendMessageThreadPoolNums = 16
flushDiskType = SYNC_FLUSH
mappedFileSizeCommitLog=1048576
"""


def test_nothing_given_means_the_defaults_of_rocketmq() -> None:
    broker, store = settings.load(None)
    assert broker.identity.broker_name == socket.gethostname()
    assert broker.identity.broker_cluster_name == "DefaultCluster"
    assert (broker.network.listen_port, broker.topics.default_topic_queue_nums) == (10911, 8)
    assert broker.network.name_servers == ()
    assert store.max_message_size == 4 * 1024 * 1024


def test_a_real_broker_conf_is_read_and_what_has_no_effect_is_listed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "broker.conf"
    path.write_text(BROKER_CONF)
    broker, store = settings.load(path)
    assert broker.network.broker_ip == "10.0.0.1"
    assert broker.network.name_servers == ("10.0.0.2:9876", "10.0.0.3:9876")
    assert not broker.topics.auto_create_topic_enable
    assert store.sync_flush and store.mapped_file_size_commit_log == 1048576
    assert store.delete_when == "04"
    assert "have no effect here: sendMessageThreadPoolNums\n" in caplog.text


def test_toml_says_the_same_with_types(tmp_path: Path) -> None:
    path = tmp_path / "broker.toml"
    path.write_text('brokerName = "b"\nlistenPort = 1\nautoCreateTopicEnable = false\nmaxMessageSize = 9\n')
    broker, store = settings.load(path)
    assert (broker.identity.broker_name, broker.network.listen_port) == ("b", 1)
    assert not broker.topics.auto_create_topic_enable
    assert store.max_message_size == 9


def test_the_command_line_wins_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_text(BROKER_CONF)
    assert settings.load(path, {"listenPort": 1}).broker.network.listen_port == 1


@pytest.mark.parametrize(
    ("name", "value", "limit"),
    [
        ("listenPort", "70000", "65535"),
        ("brokerId", "one", "allowed: a whole number from -1 to 2147483647"),
        ("brokerId", "-2", "-1"),
        ("traceOn", "maybe", "allowed: true, false"),
        ("brokerRole", "MASTER", "allowed: ASYNC_MASTER, SYNC_MASTER, SLAVE"),
        ("haListenPort", "-1", "allowed: a whole number from 0 to 65535"),
    ],
)
def test_a_bad_value_is_named_with_its_limit(name: str, value: str, limit: str) -> None:
    with pytest.raises(SettingsError, match=f"setting {name} = '{value}'.*{limit}"):
        settings.from_properties({name: value})


@pytest.mark.parametrize(
    "role",
    [
        {"brokerRole": "SYNC_MASTER"},
        {"brokerRole": "SLAVE", "brokerId": "1"},
        {"enableControllerMode": "true", "controllerAddr": "127.0.0.1:9878"},
    ],
    ids=lambda role: next(iter(role.values())),
)
def test_a_store_that_another_program_replicates_has_no_part_in_a_set(role: dict[str, str]) -> None:
    replicated = {"duplicationEnable": "true"}
    assert settings.load(None, replicated).store.duplication_enable
    with pytest.raises(SettingsError, match=r"duplicationEnable = true with brokerRole = .*ASYNC_MASTER"):
        settings.load(None, replicated | role)


def test_all_settings_can_be_shown_as_text() -> None:
    shown = settings.as_properties(settings.load(None, {"brokerName": "b"}))
    assert shown["brokerName"] == "b" and shown["longPollingEnable"] == "true"
    assert shown["flushDiskType"] == "ASYNC_FLUSH"
    assert list(shown) == sorted(shown)


def test_another_store_is_not_served_with_the_log_of_the_file_s_own(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_text(f"storePathRootDir={tmp_path}/own\nstorePathCommitLog=/a,/b\n")
    assert settings.load(path).store.store_path_commit_log == "/a,/b"
    with pytest.raises(SettingsError, match="storePathCommitLog = /a,/b is that of the store"):
        settings.load(path, {"storePathRootDir": str(tmp_path / "other")})
    path.write_text(f"storePathRootDir={tmp_path}/own\nstorePathCommitLog={tmp_path}/own/commitlog\n")
    loaded = settings.load(path, {"storePathRootDir": str(tmp_path / "other")})
    assert not loaded.store.names_log


def test_a_file_wins_over_defaults_and_overrides_over_both(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_text("enablePropertyFilter=false\nlistenPort=1\n")
    defaults = {"enablePropertyFilter": True, "traceOn": False}
    found = settings.load(path, {"listenPort": "2"}, defaults=defaults).broker
    assert not found.filters.enable_property_filter and not found.trace_on
    assert found.network.listen_port == 2
    assert settings.load(None, defaults=defaults).broker.filters.enable_property_filter


@pytest.mark.parametrize(("role", "has_pool"), [("ASYNC_MASTER", True), ("SLAVE", False)])
def test_a_slave_writes_without_the_pool(role: str, *, has_pool: bool) -> None:
    given = {"brokerRole": role, "transientStorePoolEnable": "true", "namesrvAddr": "10.0.0.2:9876"}
    loaded = settings.load(None, given | ({"brokerId": "1"} if role == "SLAVE" else {}))
    assert loaded.of_role().store.transient_store_pool_enable is has_pool
    assert loaded.of_role().broker == loaded.broker
