"""Signatures of requests: a client proves with each request that it knows its user's secret.

The signature is HMAC-SHA1 with the secret as the key, in Base64. What is signed are the values of the
request's fields, in the order of their names, then the body, without a mark in between: bytes can be moved
from one to the next, from the body into a field, too. It covers neither the request's code nor a time, so
whoever reads a request can send it again, and as another one. Only TLS protects against that.

RocketMQ: ``AclClientRPCHook.java``, ``AclUtils.java``, ``AclSigner.java``; how a server sees it:
``DefaultAuthenticationContextBuilder.java``.
"""

import binascii
import hashlib
import hmac
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from cometmq.arguments import TEXT, check
from cometmq.errors import IllegalType, SettingsError
from cometmq.message import Buffer
from cometmq.wire.codes import Version

ACCESS_KEY: Final = "AccessKey"
"""The field with the name of the user."""
SIGNATURE: Final = "Signature"
"""The field with the signature; the only one that is not signed."""
ADDED_AFTER_SIGNING: Final = "_UNIQUE_KEY_QUERY"
"""A field that clients up to 4.9.3 add after they have signed, so a server must leave it out for them."""


class Credentials(msgspec.Struct, frozen=True):
    """The name and the secret of a user, with which a client signs its requests.

    The secret is in no text of an object: neither in its ``repr`` nor in an error.

    Args:
        access_key: the user's name.
        secret_key: the user's password.

    Raises:
        SettingsError: one of them is empty; IllegalType if it is not a str.
    """

    access_key: str
    secret_key: str

    def __post_init__(self) -> None:
        check(TEXT, access_key=self.access_key)
        if not isinstance(self.secret_key, str):  # its value must not appear in an error
            raise IllegalType(f"secret_key ({type(self.secret_key).__name__}): give a text")
        if not self.access_key or not self.secret_key:
            empty = "secret_key" if self.access_key else "access_key"
            raise SettingsError(f"{empty} is empty: give the name and the secret of a user")

    def __repr__(self) -> str:
        return f"Credentials({self.access_key!r}, ***)"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("access_key", self.access_key)]


def signed_content(ext_fields: Mapping[str, str], body: Buffer, version: int) -> bytes:
    """Return the bytes of a request that its signature covers.

    Args:
        version: the version of the request's sender.
    """
    names = tuple(ext_fields)
    signed_names = _ORDERS.get(names) if version > Version.V4_9_3 else None
    if signed_names is None:
        signed_names = _signed_names(names, version)
    return b"".join((signed_text("".join([ext_fields[name] for name in signed_names])), body))


def signed_text(values: str) -> bytes:
    """Encode the joined values of the signed fields. What is no character becomes ``?``, as in Java."""
    return values.encode(errors="replace")


def signature_of(secret: str, content: bytes) -> str:
    """Return the signature of a request's signed content."""
    return signing_key(secret).sign(content).decode()


def signed_fields(
    ext_fields: Mapping[str, str], body: Buffer, version: int, credentials: Credentials
) -> dict[str, str]:
    """Return a request's fields with the access key and the signature, in place of those it has."""
    fields = {**ext_fields, ACCESS_KEY: credentials.access_key}
    fields[SIGNATURE] = signature_of(credentials.secret_key, signed_content(fields, body, version))
    return fields


_ORDERS: Final[dict[tuple[str, ...], list[str]]] = {}
"""For the names of fields as they came, the signed ones in their order: a client always writes the same."""
_ORDERS_MAX: Final = 256
_ORDER_LENGTH_MAX: Final = 256
"""Most characters of names that are kept: a peer could send any."""


def _signed_names(names: tuple[str, ...], version: int) -> list[str]:
    """Return the names of signed fields in the order in which their values are signed; keep them if usual."""
    is_old = version <= Version.V4_9_3
    left_out = (SIGNATURE, ADDED_AFTER_SIGNING) if is_old else (SIGNATURE,)
    signed_names = [name for name in sorted(names) if name not in left_out]
    if not is_old and sum(map(len, names)) <= _ORDER_LENGTH_MAX:
        if len(_ORDERS) >= _ORDERS_MAX:
            _ORDERS.clear()
        _ORDERS[names] = signed_names
    return signed_names


_BLOCK_SIZE: Final = 64
"""Bytes of a block of SHA-1."""


class SigningKey:
    """A secret, prepared for many signatures: the two hashes of HMAC (RFC 2104) up to the content.

    Copying them for each signature takes half of the time of ``hmac.digest``, which begins with the key.
    """

    def __init__(self, secret: str) -> None:
        key = secret.encode(errors="replace")
        if len(key) > _BLOCK_SIZE:
            key = hashlib.sha1(key, usedforsecurity=False).digest()
        key = key.ljust(_BLOCK_SIZE, b"\0")
        inner, outer = (bytes(byte ^ pad for byte in key) for pad in (0x36, 0x5C))
        self._begin_inner = hashlib.sha1(inner, usedforsecurity=False).copy
        self._begin_outer = hashlib.sha1(outer, usedforsecurity=False).copy

    def sign(self, content: Buffer, body: Buffer = b"") -> bytes:
        """Return the signature of a request's signed content, whose body may come on its own."""
        inner, outer = self._begin_inner(), self._begin_outer()
        inner.update(content)
        if body:
            inner.update(body)
        outer.update(inner.digest())
        return binascii.b2a_base64(outer.digest(), newline=False)

    def has_signed(self, signature: Buffer, content: Buffer, body: Buffer = b"") -> bool:
        """Return whether a text is the signature of a request's signed content, see ``sign``.

        The time of the comparison does not tell how much of a guess is right.
        """
        return hmac.compare_digest(signature, self.sign(content, body))


@lru_cache(maxsize=1_024)
def signing_key(secret: str) -> SigningKey:
    """Return the key of a secret, the same one for a secret that was used lately."""
    return SigningKey(secret)
