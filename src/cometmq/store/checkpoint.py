"""The checkpoint file of an open store: up to which store time recovery may trust the files."""

from pathlib import Path

from cometmq.errors import FormatError
from cometmq.format.checkpoint import SIZE, Checkpoint
from cometmq.io.open_files import OpenFiles
from cometmq.logs import get_logger

log = get_logger(__name__)


class CheckpointFile:
    """The checkpoint file, written in place: its fields fit one disk sector.

    Attributes:
        value: the content. Its times only grow, unless the clock is set back.
        is_known: whether the file existed and was intact.
        vouched_time: store time, ms, up to which the CommitLog is on the disk: messages that are appended
            from now on must have later store times.
        confirmed_offset: CommitLog offset that ``advance`` notes as confirmed: with ``duplicationEnable`` a
            Java broker that opens the store after a kill dispatches no further.
    """

    def __init__(self, files: OpenFiles, path: Path) -> None:
        self.value = Checkpoint()
        self.is_known = False
        self.vouched_time = 0
        self.confirmed_offset = 0
        self._files = files
        self._written: Checkpoint | None = None  # what the file holds, since it was written last
        self.path = path

    def load(self) -> None:
        """Read the file; if it is missing or damaged, recovery trusts nothing.

        If the fields differ from their copy, a bit was flipped or a Java broker wrote them: the lower counts.
        """
        if not self._files.layer.exists(self.path):
            return
        data = self._files.layer.load(self.path)
        try:
            value = Checkpoint.unpack(data if len(data) == SIZE else b"")
        except FormatError as error:
            log.warning("%s: %s; recovery reads the whole log", self.path, error)
            return
        copy = Checkpoint.unpack_copy(data)
        if copy is not None and copy != value:
            log.warning("%s: its fields differ from their copy in it; the earlier times count", self.path)
            value = Checkpoint._make(map(min, value, copy))
        self._set(value)
        self.confirmed_offset = value.confirm_phy_offset
        self.is_known = True

    def create_if_missing(self) -> None:
        """Create the file: from now on its absence means that it was lost. Raises OSError."""
        if self._files.layer.exists(self.path) and self._files.layer.size(self.path) != SIZE:
            self._files.layer.remove(self.path)
        if not self._files.layer.exists(self.path):
            self.advance(flushed_time=0)

    def advance(self, *, flushed_time: int, dispatched_time: int = 0, full_index_time: int = 0) -> None:
        """Advance the store times, ms, up to which log, queues and full index files are on the disk.

        A Java broker that opens the store after a kill deletes index files that end later than the third.
        Raises OSError.
        """
        value = self.value._replace(
            physic_msg_timestamp=max(flushed_time, self.value.physic_msg_timestamp),
            logics_msg_timestamp=max(dispatched_time, self.value.logics_msg_timestamp),
            index_msg_timestamp=max(full_index_time, self.value.index_msg_timestamp),
            confirm_phy_offset=self.confirmed_offset,
        )
        if self._files.layer.exists(self.path):
            if value == self._written:
                return
            file = self._files.get(self.path)
        else:
            file = self._files.create(self.path, SIZE)
        file.write(0, value.pack_with_copy())
        self._written = value
        self._set(value)

    def lower(self, time_ms: int) -> None:
        """Lower the times to ``time_ms``, so that they vouch for no new messages; sync. Raises OSError."""
        value = self.value._replace(
            physic_msg_timestamp=min(time_ms, self.value.physic_msg_timestamp),
            logics_msg_timestamp=min(time_ms, self.value.logics_msg_timestamp),
            index_msg_timestamp=min(time_ms, self.value.index_msg_timestamp),
        )
        self._written = None  # until it is known to be on the disk
        self._files.get(self.path).write(0, value.pack_with_copy())
        self.sync()
        self._set(value)

    def sync(self) -> None:
        """Sync the file to the disk. Raises OSError."""
        self._files.layer.sync(self.path)

    def _set(self, value: Checkpoint) -> None:
        self.value = value
        self.vouched_time = value.physic_msg_timestamp
