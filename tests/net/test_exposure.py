"""A server that other machines reach asks for signatures, or says that it is insecure."""

import pytest

from cometmq.errors import SettingsError
from cometmq.net import inproc
from cometmq.net.exposure import check_exposure, is_loopback
from cometmq.net.tls.settings import TlsMode

DISABLED = TlsMode.DISABLED


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost", inproc.HOST])
def test_only_this_machine_reaches_a_loopback_address(host: str) -> None:
    assert is_loopback(host)
    assert check_exposure(host, authentication="it", is_on=False, insecure=False, tls=DISABLED) == ""


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.0.2.1", "fe80::1", "::ffff:192.0.2.1"])
def test_another_address_needs_authentication_or_a_word_that_it_is_insecure(host: str) -> None:
    assert not is_loopback(host)
    with pytest.raises(SettingsError) as caught:
        check_exposure(
            host, authentication="authenticationEnabled = true", is_on=False, insecure=False, tls=DISABLED
        )
    for way in ("127.0.0.1", "authenticationEnabled = true", "--insecure"):
        assert way in str(caught.value)
    told = check_exposure(host, authentication="it", is_on=False, insecure=True, tls=DISABLED)
    assert told.startswith(f"insecure: whoever reaches {host} can")
    assert told.endswith(". Require signatures by it, or listen on 127.0.0.1")


@pytest.mark.parametrize("host", ["no such host", "x" * 300])
def test_a_name_that_is_not_known_is_refused_as_no_address(host: str) -> None:
    with pytest.raises(SettingsError, match="cannot listen on"):
        is_loopback(host)


@pytest.mark.parametrize("tls", TlsMode)
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "192.0.2.1"])
def test_signatures_without_tls_are_told_of_where_others_reach_the_server(host: str, tls: TlsMode) -> None:
    told = check_exposure(host, authentication="it", is_on=True, insecure=False, tls=tls)
    if tls is TlsMode.DISABLED and host != "127.0.0.1":
        assert told.startswith(f"insecure: requests to {host} are signed and not encrypted")
        assert ". Demand TLS by --tls-cert" in told and "tlsServerMode" in told
    else:
        assert told == ""
