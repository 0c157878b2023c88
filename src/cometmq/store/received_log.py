"""The log of a slave: bytes of its master's log, appended by whole records.

A master cuts its log anywhere, so a record may arrive in pieces. Only whole records are written, and blanks;
the rest waits in memory. So the files of a slave hold what those of its master hold, up to a record's end: a
killed slave has no torn record, and goes on from there.

What arrives is checked like what a recovery reads (``format.scan``): by its own physical offset, sizes and
checksum. A log that differs from the master's, or lies in files of another length, is found by that.
"""

from cometmq import kernels
from cometmq.errors import LogDiverged
from cometmq.format.record import START_SIZE
from cometmq.format.scan import StopReason
from cometmq.kernels.ops import Scan
from cometmq.store.appending import Appending
from cometmq.store.log.commit_log import SETTING, CommitLog


class ReceivedLog:
    """Appends what a master sends.

    Attributes:
        record_count: number of records appended so far.
    """

    def __init__(self, log: CommitLog, appending: Appending) -> None:
        self.record_count = 0
        self._log = log
        self._appending = appending
        self._rest = b""  # the beginning of a record, or of a blank

    @property
    def end_offset(self) -> int:
        """CommitLog offset behind the last whole record: the master sends on from there."""
        return self._log.written_offset

    @property
    def is_empty(self) -> bool:
        """Whether there is no file of the log yet: it may begin at any file of the master."""
        return not self._log.chain.starts

    def forget_rest(self) -> None:
        """Forget the beginning of a record whose rest did not come: the connection was lost."""
        self._rest = b""

    def append(self, offset: int, data: bytes) -> None:
        """Append bytes of the master's log that begin at an offset.

        Raises LogDiverged if they do not continue this log, StoreNotWritable if the disk refuses; what was
        not appended must be received again.
        """
        if self.is_empty and not self._rest:
            self._begin(offset)
        expected = self.end_offset + len(self._rest)
        if offset != expected:
            raise LogDiverged(f"the master sends on from offset {offset}, but this log ends at {expected}")
        data, self._rest = self._rest + data, b""
        size = self._log.chain.file_size
        if self.end_offset % size + len(data) > size:
            raise LogDiverged(
                f"{len(data)} bytes at offset {self.end_offset} do not fit into a file of {size} bytes: "
                f"{SETTING} must be that of the master"
            )
        scan = kernels.loading.ops.scan(data, base_offset=self.end_offset, crc=self._log.crc)
        end = self._end(data, scan)
        if end:
            self._appending.received(data[:end], scan)
            self.record_count += scan.count
        self._rest = data[end:]

    def _begin(self, offset: int) -> None:
        size = self._log.chain.file_size
        if offset % size:
            raise LogDiverged(
                f"the master's file that holds offset {offset} begins there, which is no multiple of {size}: "
                f"{SETTING} must be that of the master"
            )
        self._appending.begin_at(offset)

    def _end(self, data: bytes, scan: Scan) -> int:
        """Return how many of the bytes are whole records and blanks. Raises LogDiverged."""
        at, left = scan.stop_position, len(data) - scan.stop_position
        if scan.stop_reason is StopReason.BLANK:
            blank = int.from_bytes(data[at : at + 4], "big")
            to_end = -(self.end_offset + at) % self._log.chain.file_size
            if blank != to_end:
                raise LogDiverged(
                    f"a blank of {blank} bytes at offset {self.end_offset + at}, {to_end} before the end of "
                    f"its file: {SETTING} must be that of the master"
                )
            return at + blank if left >= blank else at
        if scan.stop_reason is StopReason.LIMIT or left < START_SIZE:
            return at
        raise LogDiverged(
            f"what the master has at offset {self.end_offset + at} does not continue this log, or is damaged"
        )
