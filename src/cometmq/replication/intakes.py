"""What a slave does with what its master sends: the protocol of a connection.

``slave.py`` has the socket; an intake takes what comes from it. ``ClassicIntake`` is RocketMQ's classic
protocol; with a controller there is another one (``controller/slave_part.py``).

Source: RocketMQ ``store/ha/DefaultHAClient.java``.
"""

from typing import Protocol

from cometmq.replication.frames import LogFrameReader, encode_report
from cometmq.replication.settings import BATCH_MAX
from cometmq.store.store import MessageStore


class LogIntake(Protocol):
    """What a slave does with what its master sends over one connection."""

    @property
    def is_level(self) -> bool:
        """Whether this log is a beginning of the master's, as far as the protocol tells."""
        ...

    def begin(self) -> bytes:
        """Return what to send first."""
        ...

    async def received(self, data: bytes) -> None:
        """Process what the master has sent.

        Raises LogDiverged, StoreNotWritable, ProtocolError or OSError: the connection must be closed.
        """
        ...

    def report(self) -> bytes:
        """Return what to send after something was received, and at intervals."""
        ...


class ClassicIntake:
    """What a slave does without a controller: it appends what comes, and reports the end of its log.

    Attributes:
        is_level: see ``LogIntake``; true, as the first append tells whether it is.
    """

    is_level = True

    def __init__(self, store: MessageStore) -> None:
        self._received = store.received
        self._frames = LogFrameReader(BATCH_MAX)

    def begin(self) -> bytes:
        """Return a report: the master sends from there."""
        return self.report()

    async def received(self, data: bytes) -> None:
        """Append what the master has sent: see ``LogIntake``."""
        for frame in self._frames.receive(data):
            if frame.data:
                self._received.append(frame.offset, frame.data)

    def report(self) -> bytes:
        """Return the report of the log's end."""
        return encode_report(self._received.end_offset)
