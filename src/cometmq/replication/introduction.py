"""How a slave introduces itself to its master inside TLS, before the protocol of replication begins.

RocketMQ's replication knows neither TLS nor users, so this is between CometMQ brokers only. It cannot be
taken for RocketMQ's: a connection is TLS if its first byte is 0x16, and RocketMQ's slaves begin with 0. The
master greets:

====== ==== =============== ==================================================================================
Offset Size Field           What it is for
====== ==== =============== ==================================================================================
0      8    magic           ``ff`` and ``CometMQ``: whoever connects has found what it looks for
8      16   challenge       random: what a slave answers is of no use on another connection
====== ==== =============== ==================================================================================

and the slave answers, with the name of a user if it has one (``innerClientAuthenticationCredentials``):

====== ==== =============== ==================================================================================
Offset Size Field           What it is for
====== ==== =============== ==================================================================================
0      8    magic           as above
8      2    name length     0 without a user; the answer then ends here
10     n    name            of the user, UTF-8
10 + n 32   signature       HMAC-SHA256 of magic, challenge and name, with the user's secret
====== ==== =============== ==================================================================================

From there on both speak as they would without TLS. The secret itself is never sent.
"""

import hashlib
import hmac
import struct
from typing import Final

from cometmq.errors import ProtocolError
from cometmq.wire.acl import Credentials

MAGIC: Final = b"\xffCometMQ"
CHALLENGE_SIZE: Final = 16
GREETING_SIZE: Final = len(MAGIC) + CHALLENGE_SIZE
SIGNATURE_SIZE: Final = 32
HEAD_SIZE: Final = len(MAGIC) + 2
NAME_SIZE_MAX: Final = 1_024

_LENGTH: Final = struct.Struct(">H")


def encode_greeting(challenge: bytes) -> bytes:
    """Encode a master's greeting."""
    return MAGIC + challenge


def decode_greeting(data: bytes) -> bytes:
    """Return the challenge in a greeting. Raises ProtocolError."""
    if data[: len(MAGIC)] != MAGIC:
        raise ProtocolError("what answers there by TLS is no CometMQ master's port for slaves")
    return data[len(MAGIC) :]


def encode_introduction(challenge: bytes, credentials: Credentials | None) -> bytes:
    """Encode a slave's answer."""
    if credentials is None:
        return MAGIC + _LENGTH.pack(0)
    name = credentials.access_key.encode()
    if len(name) > NAME_SIZE_MAX:
        raise ProtocolError(f"a user's name of {len(name)} bytes: at most {NAME_SIZE_MAX} are possible")
    return MAGIC + _LENGTH.pack(len(name)) + name + _signature(challenge, name, credentials.secret_key)


def decode_head(data: bytes) -> int:
    """Return the length of the name that follows the head of a slave's answer. Raises ProtocolError."""
    if data[: len(MAGIC)] != MAGIC:
        raise ProtocolError("it does not introduce itself as a CometMQ slave")
    (size,) = _LENGTH.unpack_from(data, len(MAGIC))
    if size > NAME_SIZE_MAX:
        raise ProtocolError(f"a user's name of {size} bytes: at most {NAME_SIZE_MAX} are possible")
    return int(size)


def is_signed(challenge: bytes, name: bytes, signature: bytes, secret: str) -> bool:
    """Check whether an answer's signature is that of who knows the secret."""
    return hmac.compare_digest(signature, _signature(challenge, name, secret))


def _signature(challenge: bytes, name: bytes, secret: str) -> bytes:
    return hmac.digest(secret.encode(), MAGIC + challenge + name, hashlib.sha256)
