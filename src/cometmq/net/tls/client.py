"""TLS of clients: what they check of a server, and the certificate that they show to it.

RocketMQ's own clients check neither the authority nor the host of a server's certificate unless they are told
to, and never the host. Here both are checked unless the caller asks for less.
"""

import ssl
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Final

from cometmq.arguments import FLAG, TEXT, check, instance_of, or_none
from cometmq.errors import SettingsError
from cometmq.net.tls.pem import (
    PemPath,
    Stamps,
    load_authorities,
    load_chain,
    openssl_reason,
    reason_of,
    stamps,
)

CONTEXTS_MAX: Final = 16
"""Most contexts that are kept: loading the system's authorities takes some 20 ms."""
_PATH: Final = or_none(instance_of(str, Path))


@dataclass(frozen=True, kw_only=True)
class TLS:
    """How a client connects by TLS, of version 1.2 at least.

    Files are in PEM form. When one of them is replaced, new connections use the new one.

    Attributes:
        ca_file: certificates of the authorities that are trusted, or of the servers themselves; None for the
            system's authorities.
        cert_file: this client's certificate with those that sign it, for servers that require one; None for
            none.
        key_file: the key of this certificate; None if ``cert_file`` contains it.
        key_password: the password of the key; None if it has none.
        check_host: whether a server's certificate must be for the host, or the IP address, that the client
            connects to. Brokers are connected to by the addresses that they register.
        verify: whether certificates of servers are checked at all. Without, a stranger in between can read
            and change everything.
    """

    ca_file: PemPath | None = None
    cert_file: PemPath | None = None
    key_file: PemPath | None = None
    key_password: str | None = field(default=None, repr=False)
    check_host: bool = True
    verify: bool = True

    def __post_init__(self) -> None:
        """Check the arguments. Raises SettingsError."""
        check(_PATH, ca_file=self.ca_file, cert_file=self.cert_file, key_file=self.key_file)
        check(or_none(TEXT), key_password=self.key_password)
        check(FLAG, check_host=self.check_host, verify=self.verify)
        if self.key_file and not self.cert_file:
            raise SettingsError(f"key_file {self.key_file}: give cert_file, the certificate of the key, too")

    def context(self) -> ssl.SSLContext:
        """Return the context for connections; it is built again when a file has changed.

        Raises SettingsError: a file cannot be read, or does not contain what it should.
        """
        return _context(self, stamps(self.ca_file, self.cert_file, self.key_file))


TLS_ARGUMENT: Final = or_none(instance_of(TLS, bool))


def tls_of(tls: TLS | bool | None) -> TLS | None:
    """Return a client's argument ``tls`` as TLS, None for none. Raises IllegalType.

    True stands for the system's authorities and no certificate of the client's own.
    """
    check(TLS_ARGUMENT, tls=tls)
    return TLS() if tls is True else tls or None


def trouble_of(error: ssl.SSLError) -> str:
    """Return what went wrong between a client and a server, and the remedy, as the end of a sentence."""
    if isinstance(error, ssl.SSLCertVerificationError):
        detail = error.verify_message.rstrip(".")
        remedy = _BY_VERIFY_CODE.get(error.verify_code, "")
        return f"its certificate is not accepted: {detail}{remedy}"
    for part, text in _BY_REASON.items():
        if part in openssl_reason(error):
            return text
    return f"TLS failed: {reason_of(error)}"


@lru_cache(CONTEXTS_MAX)
def _context(tls: TLS, _: Stamps) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = tls.verify and tls.check_host
    if not tls.verify:
        context.verify_mode = ssl.CERT_NONE
    elif tls.ca_file:
        context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN  # or only roots could be trusted
        load_authorities(context, tls.ca_file)
    else:
        context.load_default_certs()
    if tls.cert_file:
        load_chain(context, tls.cert_file, tls.key_file, tls.key_password)
    return context


_UNKNOWN_AUTHORITY: Final = (
    "; give the file of the authority that signed it, or of the certificate itself (ca_file, --tls-ca)"
)
_WRONG_HOST: Final = (
    "; connect to a name that is in it, or accept it for any host (check_host=False, --tls-any-host)"
)
_BY_VERIFY_CODE: Final = {
    **dict.fromkeys((2, 18, 19, 20, 21), _UNKNOWN_AUTHORITY),  # X509_V_ERR_* of OpenSSL's x509_vfy.h
    9: "; check the clocks of both machines",
    10: "; the server needs a new one",
    62: _WRONG_HOST,
    64: _WRONG_HOST,
}
_BY_REASON: Final = {
    "WRONG_VERSION_NUMBER": "it does not speak TLS there",
    "HTTP_REQUEST": "it does not speak TLS there",
    "CERTIFICATE_REQUIRED": "it requires a certificate of the client (cert_file, --tls-cert)",
    "ALERT_UNKNOWN_CA": "it does not accept this client's certificate: an authority that it does not trust",
    "ALERT_BAD_CERTIFICATE": "it does not accept this client's certificate, or requires one (cert_file, "
    "--tls-cert)",  # RocketMQ's servers mean both
    "ALERT_CERTIFICATE_UNKNOWN": "it does not accept this client's certificate",  # nor do they say more
    "CERTIFICATE_EXPIRED": "it does not accept this client's certificate: it has expired",
    "PROTOCOL_VERSION": "it speaks no version of TLS that this client does: 1.2 or 1.3",
    "HANDSHAKE_FAILURE": "it agrees to no cipher of this client's, or requires a certificate of the client",
}
"""What an alert or a record that is none means, by a part of OpenSSL's reason."""
