import socket

import pytest

from cometmq.broker.name_servers.own_address import LOOPBACK, exposure, ha_ip, own_ip
from cometmq.broker.settings import BrokerSettings
from cometmq.broker.settings_by_subject import NetworkSettings
from cometmq.errors import SettingsError


def test_the_setting_wins() -> None:
    assert own_ip(NetworkSettings(broker_ip="10.1.2.3", bind_address="0.0.0.0")) == "10.1.2.3"


def test_a_name_is_looked_up() -> None:
    assert own_ip(NetworkSettings(broker_ip="localhost")) in {LOOPBACK, "::1"}


def test_slaves_may_have_an_address_of_their_own() -> None:
    assert ha_ip(NetworkSettings(broker_ha_ip="10.1.2.3")) == "10.1.2.3"
    assert ha_ip(NetworkSettings(broker_ip="10.1.2.3")) is None
    with pytest.raises(SettingsError, match="brokerIP2 = 'no such name'"):
        ha_ip(NetworkSettings(broker_ha_ip="no such name"))


def test_a_name_that_nobody_knows_is_refused() -> None:
    with pytest.raises(SettingsError, match="brokerIP1 = 'no such name'"):
        own_ip(NetworkSettings(broker_ip="no such name"))


def test_an_address_that_is_listened_at_is_the_address() -> None:
    assert own_ip(NetworkSettings()) == LOOPBACK
    assert own_ip(NetworkSettings(bind_address="::1")) == "::1"


def test_listening_at_all_means_the_address_that_the_name_server_sees() -> None:
    with socket.create_server((LOOPBACK, 0)) as listener:
        address = f"{LOOPBACK}:{listener.getsockname()[1]}"
        assert own_ip(NetworkSettings(bind_address="0.0.0.0", namesrv_addr=address)) == LOOPBACK


def test_a_name_server_at_all_addresses_tells_nothing() -> None:
    some = own_ip(NetworkSettings(bind_address="0.0.0.0"))
    assert own_ip(NetworkSettings(bind_address="0.0.0.0", namesrv_addr="0.0.0.0:9876")) == some


def test_without_a_name_server_some_address_of_the_machine_is_taken() -> None:
    assert own_ip(NetworkSettings(bind_address="0.0.0.0")).count(".") == 3


def test_an_address_that_others_reach_needs_authentication_or_the_word_insecure() -> None:
    assert exposure(BrokerSettings()) == ""
    with pytest.raises(SettingsError, match=r"0\.0\.0\.0.*authenticationEnabled = true.*--insecure"):
        exposure(BrokerSettings.of(bind_address="0.0.0.0"))
    signed = BrokerSettings.of(bind_address="0.0.0.0", authentication_enabled=True)
    assert "signed and not encrypted" in exposure(signed)
    assert exposure(signed.changed(tls_server_cert_path="server.pem")) == ""
    assert "whoever reaches 0.0.0.0" in exposure(BrokerSettings.of(bind_address="0.0.0.0", insecure=True))
