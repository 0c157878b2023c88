"""Create a certificate that nobody else trusts: for ``cometmq dev --tls`` and the embedded broker of tests.

Python's library makes no certificates. The program ``openssl`` does, and is there wherever a system keeps
authorities (Debian's ``ca-certificates`` brings it). The package ``cryptography`` would be five megabytes of
machine code, for certificates that no production has.
"""

import ipaddress
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from cometmq.errors import SettingsError

DAYS: Final = 30
"""How long it is valid."""
TIMEOUT_S: Final = 30.0
_HERE: Final = ("localhost", "127.0.0.1", "::1")


class CertificateFiles(NamedTuple):
    """A certificate and its key, as PEM files. Clients that trust the former trust the server."""

    cert: Path
    key: Path


def make_certificate(directory: Path, hosts: Iterable[str] = ()) -> CertificateFiles:
    """Create a certificate for this machine's loopback addresses and ``hosts``; earlier files are replaced.

    Args:
        directory: created if missing, for its owner only.
        hosts: names and IP addresses.

    Raises:
        SettingsError: there is no program ``openssl``, or it fails.
        OSError: the files cannot be written.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    made = CertificateFiles(directory / "cert.pem", directory / "key.pem")
    os.close(os.open(made.key, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
    command = ["openssl", "req", "-x509", "-config", "/dev/stdin", "-days", str(DAYS), "-nodes"]
    command += ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    command += ["-out", str(made.cert), "-keyout", str(made.key)]
    names = dict.fromkeys((*_HERE, *hosts))
    request = _REQUEST.format(names=",".join(map(_alternative_name, names)))
    try:
        subprocess.run(  # noqa: S603  no word of it is a user's but the paths
            command, input=request, capture_output=True, text=True, check=True, timeout=TIMEOUT_S
        )
    except FileNotFoundError:
        raise SettingsError(
            "a certificate is made by the program openssl, which is not installed: install it, or give a "
            "certificate of your own (--tls-cert, --tls-key)"
        ) from None
    except subprocess.CalledProcessError as error:
        raise SettingsError(f"openssl made no certificate in {directory}: {error.stderr.strip()}") from None
    return made


def _alternative_name(host: str) -> str:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return f"DNS:{host}"
    return f"IP:{host}"


_REQUEST: Final = """\
[req]
prompt = no
distinguished_name = name
x509_extensions = extensions
[name]
CN = localhost
[extensions]
basicConstraints = critical, CA:TRUE
keyUsage = critical, digitalSignature, keyCertSign
extendedKeyUsage = serverAuth
subjectKeyIdentifier = hash
subjectAltName = {names}
"""
