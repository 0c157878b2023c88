"""Where a consumer's committed offsets are kept: at the brokers, or, for broadcasting, in a file.

::

    {"offsetTable": {{"brokerName": "a", "queueId": 0, "topic": "T"}: 17, …}}          offsets.json

(RocketMQ: RemoteBrokerOffsetStore.java, LocalFileOffsetStore.java; the file can be taken over from either.)
"""

import asyncio
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from msgspec import field

from cometmq.client.consumer.queue_requests import QueueRequests
from cometmq.errors import FormatError
from cometmq.message import MessageQueue
from cometmq.wire.bodies.body import Body, decode, encode
from cometmq.wire.headers.fields import Long

_log = logging.getLogger(__name__)


class OffsetStore(Protocol):
    """Keeps the queue offset before which everything is done, by queue."""

    async def read(self, queue: MessageQueue) -> int | None:
        """Give a queue's offset, or None if there is none yet. Raises NetworkError, NoRoute, RemoteError."""
        ...

    async def write(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Keep these offsets. Raises NetworkError, NoRoute, RemoteError or OSError."""
        ...


class RemoteOffsets:
    """Offsets at the brokers that have the queues: the group's."""

    def __init__(self, requests: QueueRequests) -> None:
        self._requests = requests

    async def read(self, queue: MessageQueue) -> int | None:
        """Ask the queue's broker."""
        return await self._requests.committed(queue, young_is_zero=True)

    async def write(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Tell each queue's broker; those that do not answer keep no other from being told."""
        commits = (self._requests.commit(queue, offset) for queue, offset in offsets.items())
        failures = [
            answer for answer in await asyncio.gather(*commits, return_exceptions=True) if answer is not None
        ]
        if failures:
            raise failures[0]


class LocalOffsets:
    """Offsets in a file of this client's own, with the file of before beside it as ``.bak``.

    Raises:
        FormatError: the file holds something else, and so does the one of before.
        OSError: it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._backup = path.with_name(f"{path.name}.bak")
        self._offsets = self._load()
        self._saving = asyncio.Lock()

    async def read(self, queue: MessageQueue) -> int | None:
        """Look it up."""
        return self._offsets.get(queue)

    async def write(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Replace the file as a whole: after a crash it is the old one or the new one."""
        self._offsets |= offsets
        async with self._saving:
            await asyncio.to_thread(self._save, dict(self._offsets))

    def _load(self) -> dict[MessageQueue, int]:
        if not self._path.exists():  # a crash between two renames leaves the file of before
            return decode(_OffsetTable, self._backup.read_bytes()).offsets if self._backup.exists() else {}
        try:
            return decode(_OffsetTable, self._path.read_bytes()).offsets
        except FormatError as error:
            if not self._backup.exists():
                raise
            _log.error("%s: %s; the offsets of before are used: %s", self._path, error, self._backup)
            return decode(_OffsetTable, self._backup.read_bytes()).offsets

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


class _OffsetTable(Body):
    offsets: dict[MessageQueue, Long] = field(default_factory=dict, name="offsetTable")
