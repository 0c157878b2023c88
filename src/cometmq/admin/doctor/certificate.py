"""Examine certificates as a client sees them: how long they are valid, and for which hosts.

Python's library decodes a certificate only after a handshake in which it was checked. So that of a file is
examined by a handshake within this process, between its server and a client that trusts the file itself.
"""

import asyncio
import ssl
import time
from pathlib import Path
from typing import Final

from cometmq.admin.doctor.findings import Diagnosis, fault, fine, warning
from cometmq.net.address import parse_address
from cometmq.net.tls.client import TLS, trouble_of
from cometmq.net.tls.pem import load_authorities, load_chain

SOON_DAYS: Final = 30
DAY_S: Final = 86_400
TIMEOUT_S: Final = 5.0
_TLS: Final = "TLS"
_RENEW: Final = "renew it: the files are read again within a second, without a restart"
_TRIPS_MAX: Final = 8
"""Most exchanges of a handshake within the process; TLS 1.3 takes two."""


async def peer_expiry(address: str, tls: TLS) -> float | str:
    """Return when a server's certificate expires, in seconds since the epoch, or why that is not known."""
    host, port = parse_address(address)
    context = tls.context()
    try:
        async with asyncio.timeout(TIMEOUT_S):
            _, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=host)
    except ssl.SSLError as error:
        return trouble_of(error)
    except OSError as error:
        return str(error) or "it does not answer"
    shown = writer.get_extra_info("ssl_object").getpeercert()
    writer.transport.abort()
    if not shown:
        return "certificates are not checked (--tls-insecure)"
    return ssl.cert_time_to_seconds(str(shown["notAfter"]))


def judge_expiry(subject: str, expiry: float | str) -> Diagnosis:
    """Judge when a certificate that is valid now expires."""
    if isinstance(expiry, str):
        remedy = "give --tls-ca FILE, with the authority that signed it"
        return warning(_TLS, subject, f"its certificate is not examined: {expiry}", remedy)
    days = int((expiry - time.time()) // DAY_S)
    text = f"its certificate expires in {days} days"
    return warning(_TLS, subject, text, _RENEW) if days < SOON_DAYS else fine(_TLS, subject, text)


def examine_file(cert: Path, key: Path | None, password: str, host: str) -> list[Diagnosis]:
    """Examine the certificate of a server in a file: is it valid now, how long, and for ``host``?

    Raises SettingsError if a file cannot be read, or does not contain what it should.
    """
    subject = str(cert)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_chain(server, cert, key, password or None)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN  # trust the server's certificate itself
    client.check_hostname = False
    load_authorities(client, cert)
    try:
        shown = _handshake(client, server, host)
    except ssl.SSLError as error:
        return [fault(_TLS, subject, trouble_of(error).partition(";")[0], _RENEW)]
    found = [judge_expiry(subject, ssl.cert_time_to_seconds(str(shown["notAfter"])))]
    client.check_hostname = True
    try:
        _handshake(client, server, host)
    except ssl.SSLCertVerificationError:
        remedy = (
            f"have {host} in its subjectAltName; or have clients accept it with --tls-any-host "
            "(check_host=False), as Java's always do"
        )
        found.append(warning(_TLS, subject, f"it is not for {host}, which clients connect to", remedy))
    return found


def _handshake(client: ssl.SSLContext, server: ssl.SSLContext, host: str) -> dict[str, object]:
    """Connect both within this process; return the server's certificate. Raises ssl.SSLError."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(to_client, to_server, server_hostname=host)
    answering = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(_TRIPS_MAX):
        is_done = _step(asking)
        if _step(answering) and is_done:
            break
    return dict(asking.getpeercert() or {})


def _step(side: ssl.SSLObject) -> bool:
    """Continue one side's handshake; return whether it is done."""
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True
