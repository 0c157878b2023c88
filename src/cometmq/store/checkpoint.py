"""The checkpoint of an open store: how far recovery may trust what it finds on the disk."""

import logging
from pathlib import Path

from cometmq.errors import FormatError
from cometmq.format.checkpoint import SIZE, Checkpoint
from cometmq.io.open_files import OpenFiles

log = logging.getLogger(__name__)


class CheckpointFile:
    """The checkpoint file, which is written in place: its fields fit one disk sector.

    Attributes:
        value: what it says. Its times never go back.
    """

    def __init__(self, files: OpenFiles, path: Path) -> None:
        self.value = Checkpoint()
        self._files = files
        self._path = path

    def load(self) -> None:
        """Read the file, if it is there and whole; otherwise recovery trusts nothing."""
        if not self._files.layer.exists(self._path):
            return
        try:
            self.value = Checkpoint.unpack(self._files.layer.load(self._path))
        except FormatError as error:
            log.warning("%s: %s; recovery reads the whole log", self._path, error)

    def renew(self, *, flushed_time: int, dispatched_time: int = 0) -> None:
        """Note store times, ms, up to which CommitLog and ConsumeQueues are on the disk. Raises OSError."""
        self.value = self.value._replace(
            physic_msg_timestamp=max(flushed_time, self.value.physic_msg_timestamp),
            logics_msg_timestamp=max(dispatched_time, self.value.logics_msg_timestamp),
        )
        if self._files.layer.exists(self._path):
            file = self._files.get(self._path)
        else:
            file = self._files.create(self._path, SIZE)
        file.write(0, self.value.pack())

    def sync(self) -> None:
        """Wait until the file is on the disk. Raises OSError."""
        self._files.layer.sync(self._path)
