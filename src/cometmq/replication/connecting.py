"""A slave's connection to its master's port, up to where the protocol of replication begins."""

import asyncio
import ssl
from typing import Final

from cometmq.errors import NetworkError, TLSError
from cometmq.net.address import parse_address
from cometmq.net.tls.client import TLS, trouble_of
from cometmq.replication import introduction
from cometmq.wire.acl import Credentials

_NO_HANDSHAKE: Final = (
    "it closed the connection during the TLS handshake: it does not speak TLS there (haTlsEnable; no Java "
    "master does), or does not accept this slave's certificate"
)


async def connect(
    address: str, limit_ms: int, size_max: int, tls: TLS | None, credentials: Credentials | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to a master's port; by TLS, if that is given, and then introduce this slave.

    Args:
        limit_ms: how long that may take.
        size_max: bytes that the reader keeps before the master has to wait.
        credentials: of the user as whom the slave introduces itself; None for none.

    Raises:
        TLSError: the master speaks no TLS there, or one side does not accept the other's certificate.
        ProtocolError: what answers is no master's port of CometMQ.
        NetworkError, OSError: nobody answers, or not in time.
    """
    host, port = parse_address(address)
    context = None if tls is None else tls.context()
    try:
        async with asyncio.timeout(limit_ms / 1000):
            reader, writer = await asyncio.open_connection(host, port, limit=size_max, ssl=context)
            if tls is not None:
                await _introduce(reader, writer, credentials)
    except TimeoutError:
        raise NetworkError(f"no connection within {limit_ms} ms") from None
    except ssl.SSLError as error:
        raise TLSError(f"{trouble_of(error)} (haTlsEnable)") from error
    except ConnectionResetError as error:
        raise NetworkError(_NO_HANDSHAKE if tls is not None else str(error)) from error
    return reader, writer


async def _introduce(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, credentials: Credentials | None
) -> None:
    try:
        challenge = introduction.decode_greeting(await reader.readexactly(introduction.GREETING_SIZE))
        writer.write(introduction.encode_introduction(challenge, credentials))
    except asyncio.IncompleteReadError:
        writer.transport.abort()
        raise NetworkError("it closed the connection before it greeted this slave") from None
    except BaseException:
        writer.transport.abort()
        raise
