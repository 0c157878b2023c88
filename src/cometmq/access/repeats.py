"""Requests that are like one that was allowed: of those only the signature is checked.

What decides about a request is who sends it and from where, its code, and the topics and groups that it
names. A key has all of these but for the address (``kernels.frames.rows.Signed``), so while neither users nor
policies change, a request with a known key from the same address is allowed if its user has signed it.
"""

from collections.abc import Mapping
from typing import Final

from cometmq.access.directory import Directory
from cometmq.wire.acl import SigningKey, signing_key

KEYS_MAX: Final = 10_000
"""Most keys that are known; with one more all are forgotten."""
KEY_LENGTH_MAX: Final = 512
"""Most bytes of a key: longer ones would fill the memory."""


class Repeats:
    """The keys of requests that were allowed, until users or policies change."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._known: dict[str, dict[bytes, SigningKey]] = {}  # by address, then by key
        self._count = 0
        directory.on_change.append(self._forget_all)

    def add(self, address: str, key: bytes, user: str) -> None:
        """Remember that a request with this key was allowed, which a user has signed."""
        known = self._directory.find(user)
        if known is not None and len(key) <= KEY_LENGTH_MAX:
            if self._count >= KEYS_MAX:
                self._forget_all()
            keys = self._known.setdefault(address, {})
            self._count += key not in keys
            keys[key] = signing_key(known.password)

    def known_from(self, address: str) -> Mapping[bytes, SigningKey]:
        """Return the known keys of an address, until the next change; each with what its user signs with."""
        return self._known.get(address, {})

    def _forget_all(self) -> None:
        self._known.clear()
        self._count = 0
