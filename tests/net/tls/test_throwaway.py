"""A certificate that the program openssl makes."""

import ssl
import stat
from pathlib import Path

import pytest
from cryptography import x509

from cometmq.errors import SettingsError
from cometmq.net.tls.pem import load_authorities, load_chain
from cometmq.net.tls.throwaway import make_certificate


def test_it_is_for_this_machine_and_for_the_hosts_given_and_can_be_trusted_by_itself(tmp_path: Path) -> None:
    made = make_certificate(tmp_path / "new" / "tls", ["example.test", "192.0.2.1", "localhost"])
    certificate = x509.load_pem_x509_certificate(made.cert.read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost", "example.test"]
    addresses = names.get_values_for_type(x509.IPAddress)
    assert [str(address) for address in addresses] == ["127.0.0.1", "::1", "192.0.2.1"]
    load_chain(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), made.cert, made.key, None)
    load_authorities(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), made.cert)


def test_the_key_is_its_owners_and_each_run_has_another(tmp_path: Path) -> None:
    first = make_certificate(tmp_path / "tls").key.read_bytes()
    made = make_certificate(tmp_path / "tls")
    assert made.key.read_bytes() != first
    assert stat.S_IMODE(made.key.stat().st_mode) == 0o600
    assert stat.S_IMODE(made.key.parent.stat().st_mode) == 0o700


def test_without_the_program_the_error_names_the_ways_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SettingsError, match="openssl, which is not installed: install it, or give"):
        make_certificate(tmp_path / "tls")


def test_a_host_that_no_certificate_can_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="openssl made no certificate"):
        make_certificate(tmp_path / "tls", ["a,b:c"])
