"""Authorities of the tests' own, and what they certify: servers, clients, other hosts, what has expired."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from itertools import count
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID

from cometmq.net.tls.throwaway import CertificateFiles

DAY = timedelta(days=1)
HERE = ("localhost", "127.0.0.1", "::1")


class Authority:
    """An authority whose certificates are files in a directory.

    Attributes:
        cert: the file of its own certificate, for those who trust it.
    """

    def __init__(self, directory: Path, name: str = "authority") -> None:
        self._directory = directory / name
        self._directory.mkdir()
        self._name = _named(name)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._numbers = count()
        self.cert = self._directory / "ca.pem"
        made = _builder(self._name, self._name, self._key.public_key(), timedelta())
        made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        self.cert.write_bytes(made.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM))

    def certify(
        self, *hosts: str, password: str | None = None, ends_in: timedelta = DAY, renews: Path | None = None
    ) -> CertificateFiles:
        """Certify a new key for some hosts, by default for this machine.

        ``ends_in`` may lie in the past. The files are new ones, or those in the directory ``renews``.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        made = _builder(_named("tests"), self._name, key.public_key(), ends_in)
        names = x509.SubjectAlternativeName([_alternative(host) for host in hosts or HERE])
        made = made.add_extension(names, critical=False)
        directory = renews or self._directory / str(next(self._numbers))
        directory.mkdir(exist_ok=True)
        files = CertificateFiles(directory / "cert.pem", directory / "key.pem")
        encryption = BestAvailableEncryption(password.encode()) if password else NoEncryption()
        files.cert.write_bytes(made.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM))
        files.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))
        return files


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, ends_in: timedelta
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 30 * DAY)
        .not_valid_after(now + (ends_in or 30 * DAY))
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)
