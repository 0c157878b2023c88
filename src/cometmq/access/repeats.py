"""Requests that are like one that was allowed: of those only the signature is checked.

What decides about a request is who sends it and from where, its code, and the topics and groups that it
names. A key has all of these but for the address (``kernels.frames.rows.Signed``), so while neither users nor
policies change, a request with a known key from the same address is allowed if its user has signed it.
"""

from typing import Final

from cometmq.access.directory import Directory
from cometmq.message import Buffer
from cometmq.wire.acl import is_signature

KEYS_MAX: Final = 10_000
"""Most keys that are known; with one more all are forgotten."""
KEY_LENGTH_MAX: Final = 512
"""Most bytes of a key: longer ones would fill the memory."""


class Repeats:
    """The keys of requests that were allowed, until users or policies change."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._secrets: dict[tuple[str, bytes], str] = {}  # by address and key
        directory.on_change.append(self._secrets.clear)

    def add(self, address: str, key: bytes, user: str) -> None:
        """Remember that a request with this key was allowed, which a user has signed."""
        known = self._directory.find(user)
        if known is not None and len(key) <= KEY_LENGTH_MAX:
            if len(self._secrets) >= KEYS_MAX:
                self._secrets.clear()
            self._secrets[address, key] = known.password

    def has(self, address: str, key: bytes, signature: Buffer, *signed: Buffer) -> bool:
        """Return whether a request like this was allowed, and its user has signed this one.

        Args:
            signed: the parts of what is signed of it.
        """
        secret = self._secrets.get((address, key))
        return secret is not None and is_signature(signature, secret, *signed)
