"""A server that other machines reach asks for signatures, or says that it is insecure."""

import pytest

from cometmq.errors import SettingsError
from cometmq.net import inproc
from cometmq.net.exposure import check_exposure, is_loopback


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost", inproc.HOST])
def test_only_this_machine_reaches_a_loopback_address(host: str) -> None:
    assert is_loopback(host)
    assert check_exposure(host, authentication="it", is_on=False, insecure=False) == ""


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.0.2.1", "fe80::1", "::ffff:192.0.2.1"])
def test_another_address_needs_authentication_or_a_word_that_it_is_insecure(host: str) -> None:
    assert not is_loopback(host)
    with pytest.raises(SettingsError) as caught:
        check_exposure(host, authentication="authenticationEnabled = true", is_on=False, insecure=False)
    for way in ("127.0.0.1", "authenticationEnabled = true", "--insecure"):
        assert way in str(caught.value)
    assert check_exposure(host, authentication="it", is_on=True, insecure=False) == ""
    told = check_exposure(host, authentication="it", is_on=False, insecure=True)
    assert told.startswith(f"insecure: whoever reaches {host} can")


@pytest.mark.parametrize("host", ["no such host", "x" * 300])
def test_a_name_that_is_not_known_is_refused_as_no_address(host: str) -> None:
    with pytest.raises(SettingsError, match="cannot listen on"):
        is_loopback(host)
