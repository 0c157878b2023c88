"""The settings of masters and slaves."""

import pytest

from cometmq.broker.settings import from_properties
from cometmq.errors import SettingsError
from cometmq.replication.settings import BrokerRole


def test_a_slave_of_a_java_brokers_file_is_a_slave() -> None:
    settings = from_properties({"brokerRole": "SLAVE", "brokerId": "2", "slaveReadEnable": "true"})
    own = settings.replication
    assert own.broker_role is BrokerRole.SLAVE and own.is_slave and own.may_be_read
    assert settings.identity.broker_id == 2
    assert from_properties({}).replication.may_be_read and not from_properties({}).replication.is_slave


@pytest.mark.parametrize(
    ("role", "broker_id"), [("SLAVE", 0), ("ASYNC_MASTER", 1), ("ASYNC_MASTER", -1), ("SYNC_MASTER", 1)]
)
def test_a_masters_id_is_0_and_a_slaves_is_not(role: str, broker_id: int) -> None:
    with pytest.raises(SettingsError, match=f"brokerId = {broker_id} with brokerRole = {role}"):
        from_properties({"brokerRole": role, "brokerId": broker_id})


def test_only_a_sync_master_waits_for_slaves() -> None:
    assert from_properties({"brokerRole": "SYNC_MASTER", "inSyncReplicas": "3"}).replication.awaited_acks == 2
    assert from_properties({"brokerRole": "SYNC_MASTER"}).replication.awaited_acks == 0
    assert from_properties({"inSyncReplicas": "3"}).replication.awaited_acks == 0


def test_slaves_addresses_are_addresses_and_networks() -> None:
    networks = from_properties({"haAllowedAddresses": "10.0.0.7, 10.1.0.0/16,::1"}).replication.ha_networks
    assert [str(network) for network in networks] == ["10.0.0.7/32", "10.1.0.0/16", "::1/128"]
    with pytest.raises(SettingsError, match=r"haAllowedAddresses = 'host-7'.*write addresses and networks"):
        from_properties({"haAllowedAddresses": "host-7"})


UNDER: dict[str, str] = {"enableControllerMode": "true", "controllerAddr": "10.0.0.2:9878; 10.0.0.3:9878"}


def test_a_file_of_rocketmqs_controller_mode_can_be_used() -> None:
    settings = from_properties(UNDER | {"brokerId": "-1", "brokerRole": "SLAVE"})
    assert settings.replication.controllers == ("10.0.0.2:9878", "10.0.0.3:9878")


@pytest.mark.parametrize(
    ("address", "said"), [("", "set controllerAddr"), ("nowhere", "nowhere"), ("a:1;b:x", "b:x")]
)
def test_controllers_must_have_addresses(address: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        from_properties(UNDER | {"controllerAddr": address})


def test_under_a_controller_all_in_sync_may_be_awaited() -> None:
    all_ack = UNDER | {"allAckInSyncStateSet": "true"}
    assert from_properties(all_ack).replication.waits_for_slaves
    assert not from_properties(all_ack | {"brokerRole": "SLAVE"}).replication.waits_for_slaves
    assert not from_properties(UNDER).replication.waits_for_slaves
    assert from_properties({"brokerRole": "SYNC_MASTER", "inSyncReplicas": "2"}).replication.waits_for_slaves
