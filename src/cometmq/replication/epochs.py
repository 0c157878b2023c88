"""The epochs of a replicated CommitLog: which master wrote which part, and where two logs begin to differ.

An epoch begins when a controller elects a master. Its number is greater than all before, and it has one
master only. So what two brokers hold of the same epoch was written by one process: of two lists, the latest
entry that both have shows how far their logs are equal.

RocketMQ drops a new epoch that begins where the last one did, as nothing was written in between, and then
attributes the new master's records to the old epoch. Here both entries stay, the old one without bytes, so
that records of two masters are never taken for those of one.

The file ``epochFileCheckpoint`` is text:

====================  ===============================================================================
Line                  Content
====================  ===============================================================================
1                     number of entries
2                     CRC-32 of the lines that follow, without its highest bit; 0 for "not checked"
3 …                   ``epoch-startOffset``, one line for each entry, ascending
====================  ===============================================================================

Source: RocketMQ ``store/ha/autoswitch/EpochFileCache.java``, ``common/utils/CheckpointFile.java``.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Self
from zlib import crc32

from cometmq.errors import FormatError, StoreDamaged
from cometmq.format import layout
from cometmq.io.files import FileLayer
from cometmq.logs import get_logger

NO_EPOCH: Final = -1
"""The last epoch of an empty list, as RocketMQ has it on the wire."""
OFFSET_MAX: Final = 2**63 - 1
"""The end of an epoch that has no end yet."""

_EPOCH_MAX: Final = 2**31 - 1
_CRC_MASK: Final = 0x7FFF_FFFF
_NOT_CHECKED: Final = 0

_log = get_logger(__name__)


class EpochEntry(NamedTuple):
    """One epoch: its number, and the CommitLog offset of its first byte."""

    epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True)
class EpochList:
    """The epochs of one log, in their order: numbers grow, start offsets do not go back.

    Raises FormatError for entries in another order, or out of range.
    """

    entries: tuple[EpochEntry, ...] = ()

    def __post_init__(self) -> None:
        """Check the order of the entries."""
        last = EpochEntry(NO_EPOCH, 0)
        for entry in self.entries:
            if not (last.epoch < entry.epoch <= _EPOCH_MAX):
                raise FormatError(
                    f"epoch {entry.epoch}: must be a number from {last.epoch + 1} to {_EPOCH_MAX}: "
                    "they ascend"
                )
            if not (last.start_offset <= entry.start_offset <= OFFSET_MAX):
                raise FormatError(
                    f"epoch {entry.epoch} starts at {entry.start_offset}: must be {last.start_offset} or "
                    "more, where the epoch before it starts"
                )
            last = entry

    @classmethod
    def of(cls, *entries: tuple[int, int]) -> Self:
        """Build a list from pairs of epoch and start offset."""
        return cls(tuple(EpochEntry(*entry) for entry in entries))

    @property
    def last_epoch(self) -> int:
        """The number of the last epoch; NO_EPOCH without any."""
        return self.entries[-1].epoch if self.entries else NO_EPOCH

    def find(self, epoch: int) -> EpochEntry | None:
        """Return the entry of an epoch, or None."""
        return next((entry for entry in self.entries if entry.epoch == epoch), None)

    def at(self, offset: int) -> EpochEntry | None:
        """Return the epoch that a CommitLog offset belongs to; None before the first one."""
        return next((entry for entry in reversed(self.entries) if entry.start_offset <= offset), None)

    def end_of(self, epoch: int, log_end: int = OFFSET_MAX) -> int:
        """Return the offset behind an epoch: where the next one starts, for the last one ``log_end``."""
        return next((entry.start_offset for entry in self.entries if entry.epoch > epoch), log_end)

    def append(self, epoch: int, start_offset: int) -> "EpochList":
        """Return the list with one more epoch at its end. Raises FormatError if it cannot follow the last."""
        return EpochList((*self.entries, EpochEntry(epoch, start_offset)))

    def begin(self, epoch: int, log_end: int, *, is_whole: bool = True) -> "EpochList":
        """Return the list of a broker that becomes an epoch's master, with a log up to ``log_end``.

        Args:
            is_whole: whether the log is known to have all that this broker ever wrote. Then a master that was
                started again continues its epoch. Otherwise others may have records that it has lost, and the
                epoch's entry moves to the end of the log, as in RocketMQ.

        Raises:
            FormatError: the list has a later epoch: a newer master was elected since.
        """
        if epoch < self.last_epoch:
            raise FormatError(f"epoch {epoch} is over: this broker knows epoch {self.last_epoch} already")
        known = self.find(epoch)
        if known is not None and is_whole and known.start_offset <= log_end:
            return self
        kept = tuple(e for e in self.entries if e.epoch < epoch and e.start_offset <= log_end)
        return EpochList(kept).append(epoch, log_end)

    def cut_from(self, offset: int) -> "EpochList":
        """Return the list of a log that is truncated at ``offset``: without epochs from there on."""
        return EpochList(tuple(entry for entry in self.entries if entry.start_offset < offset))

    def cut_before(self, min_offset: int) -> "EpochList":
        """Return the list of a log that begins at ``min_offset``: without epochs that end there or before."""
        return EpochList(tuple(entry for entry in self.entries if self.end_of(entry.epoch) > min_offset))


def consistent_point(own: EpochList, own_end: int, other: EpochList, other_end: int) -> int | None:
    """Return the CommitLog offset up to which two logs are equal; None if they have no epoch in common.

    The latest epoch of ``own`` decides that ``other`` has, too, with the same start. All before its start is
    equal, since a master begins an epoch on a log that it has; of the epoch itself both have a beginning.

    Args:
        own_end: offset behind the last byte of the own log. The result is not greater.
        other_end: offset behind the last byte of the other log.
    """
    for entry in reversed(own.entries):
        if other.find(entry.epoch) == entry:
            ends = own.end_of(entry.epoch, own_end), other.end_of(entry.epoch, other_end)
            return min(*ends, own_end)
    return None


def encode_epochs(epochs: EpochList) -> bytes:
    """Encode the content of the file ``epochFileCheckpoint``."""
    lines = "".join(f"{entry.epoch}-{entry.start_offset}\n" for entry in epochs.entries)
    return f"{len(epochs.entries)}\n{crc32(lines.encode()) & _CRC_MASK}\n{lines}".encode()


def decode_epochs(data: bytes) -> EpochList:
    """Decode the content of the file ``epochFileCheckpoint``.

    Raises:
        FormatError: it is empty, cut, or its checksum differs; the text says what.
    """
    try:
        count, crc, *lines = data.decode("ascii").split("\n")
        expected_count, expected_crc = int(count), int(crc)
        entries = [_parse(line) for line in lines if line]
    except ValueError:
        raise FormatError(f"no list of epochs in {len(data)} bytes: {data[:40]!r}") from None
    if len(entries) != expected_count:
        raise FormatError(f"{len(entries)} epochs, expected {expected_count}")
    found_crc = crc32("".join(f"{line}\n" for line in lines if line).encode()) & _CRC_MASK
    if expected_crc not in (_NOT_CHECKED, found_crc):
        raise FormatError(f"CRC {found_crc} of the epochs, expected {expected_crc}")
    return EpochList(tuple(entries))


class EpochFile:
    """The file ``epochFileCheckpoint`` of a store, with its backup.

    Attributes:
        epochs: what the file holds.
    """

    def __init__(self, layer: FileLayer, root: Path) -> None:
        self.epochs = EpochList()
        self._layer = layer
        self._path = layout.epoch_file_path(root)

    def load(self) -> EpochList:
        """Read the file, or its backup if it is missing or broken; an empty list without both.

        Raises:
            StoreDamaged: what is there cannot be read. Without its epochs a log would count as a new one, of
                which nothing has to be truncated.
        """
        wrong: list[str] = []
        for path in (self._path, layout.backup_path(self._path)):
            if not self._layer.exists(path):
                continue
            try:
                self.epochs = decode_epochs(self._layer.load(path))
            except FormatError as error:
                wrong.append(f"{path}: {error}")
                continue
            if wrong:
                _log.warning("%s; its backup is used, which may lack the last epoch", wrong[0])
            return self.epochs
        if wrong:
            raise StoreDamaged(
                f"{'; '.join(wrong)}: write the epochs that the master has (mqadmin getBrokerEpoch), with 0 "
                "in the second line, or empty the store to copy all from the master"
            )
        return self.epochs

    def save(self, epochs: EpochList) -> None:
        """Save a changed list, durably. Raises OSError; the old list then stays."""
        if epochs == self.epochs:
            return
        backup = layout.backup_path(self._path)
        if not epochs.entries:  # RocketMQ reads the backup if there are no entries
            self._layer.remove(backup)
            self._layer.remove(self._path)
        else:
            self._layer.make_directory(self._path.parent)
            if self.epochs.entries:
                self._layer.save(backup, encode_epochs(self.epochs))
            self._layer.save(self._path, encode_epochs(epochs))
        self.epochs = epochs


def _parse(line: str) -> EpochEntry:
    epoch, start_offset = line.split("-")
    return EpochEntry(int(epoch), int(start_offset))
