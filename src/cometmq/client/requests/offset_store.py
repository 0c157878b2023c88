"""Stores of a consumer's committed offsets: the brokers, or a file for broadcasting.

::

    {"offsetTable": {{"brokerName": "a", "queueId": 0, "topic": "T"}: 17, …}}          offsets.json

(RocketMQ: RemoteBrokerOffsetStore.java, LocalFileOffsetStore.java; either client can read the other's file.)
"""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from msgspec import field

from cometmq.client.requests.queue_requests import QueueRequests
from cometmq.errors import FormatError
from cometmq.logs import get_logger
from cometmq.message import MessageQueue
from cometmq.wire.bodies.body import Body, decode, encode
from cometmq.wire.headers.fields import Long

_log = get_logger(__name__)


class OffsetStore(Protocol):
    """Stores, for each queue, the offset before which all messages are handled."""

    async def read(self, queue: MessageQueue) -> int | None:
        """Return a queue's offset, or None without one. Raises NetworkError, NoRoute, RemoteError."""
        ...

    async def write(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Store offsets. Raises NetworkError, NoRoute, RemoteError or OSError."""
        ...


class RemoteOffsets:
    """The group's offsets, stored at the queues' brokers."""

    def __init__(self, requests: QueueRequests) -> None:
        self._requests = requests

    async def read(self, queue: MessageQueue) -> int | None:
        """Query the queue's broker."""
        return await self._requests.committed(queue, young_is_zero=True)

    async def write(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Commit at all queues' brokers, then raise the first error."""
        commits = (self._requests.commit(queue, offset) for queue, offset in offsets.items())
        failures = [
            answer for answer in await asyncio.gather(*commits, return_exceptions=True) if answer is not None
        ]
        if failures:
            raise failures[0]


class LocalOffsets:
    """This client's offsets, stored in a file with its previous version beside it as ``.bak``.

    Raises:
        FormatError: neither the file nor its previous version can be decoded.
        OSError: the file cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._backup = path.with_name(f"{path.name}.bak")
        self._offsets = self._load()
        self._saving = asyncio.Lock()

    async def read(self, queue: MessageQueue) -> int | None:
        """Return a queue's offset, or None without one."""
        return self._offsets.get(queue)

    async def write(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Replace the file atomically: after a crash it is the old one or the new one."""
        self._offsets |= offsets
        async with self._saving:
            await asyncio.to_thread(self._save, dict(self._offsets))

    def _load(self) -> dict[MessageQueue, int]:
        if not self._path.exists():  # a crash between two renames leaves only the previous version
            return _read(self._backup) if self._backup.exists() else {}
        try:
            return _read(self._path)
        except FormatError as error:
            if not self._backup.exists():
                raise
            _log.error("%s; the previous offsets are used: %s", error, self._backup)
            return _read(self._backup)

    def _save(self, offsets: dict[MessageQueue, int]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        new = self._path.with_name(f"{self._path.name}.new")
        with new.open("wb") as file:
            file.write(encode(_OffsetTable(offsets)))
            file.flush()
            os.fsync(file.fileno())
        if self._path.exists():
            self._path.replace(self._backup)
        new.replace(self._path)


def _read(path: Path) -> dict[MessageQueue, int]:
    try:
        return decode(_OffsetTable, path.read_bytes()).offsets
    except FormatError as error:
        raise FormatError(
            f"file of offsets {path}: {error}; repair it, or remove it and its .bak: the group then begins "
            "as one without offsets"
        ) from None


class _OffsetTable(Body):
    offsets: dict[MessageQueue, Long] = field(default_factory=dict, name="offsetTable")
