"""Read the files of a ConsumeQueue as they are on the disk, for checking and showing."""

from typing import NamedTuple

import numpy as np

from cometmq.format.consume_queue_ext import ADDRESS_MAX, offset_of
from cometmq.format.queue_entry import FILLER, SIZE
from cometmq.store.files.file_chain import FileChain
from cometmq.store.queue.consume_queue import ENTRY_DTYPE
from cometmq.store.queue.consume_queue_ext import ConsumeQueueExt

_ZEROS = np.zeros((), ENTRY_DTYPE)


class QueueFiles(NamedTuple):
    """The files of one ConsumeQueue."""

    topic: str
    queue_id: int
    chain: FileChain
    ext: ConsumeQueueExt | None = None

    def with_tags_codes(self, entries: np.ndarray) -> np.ndarray:
        """Return entries with the tags codes of their units in place of the units' addresses.

        The address of a lost unit stays.
        """
        extended = np.flatnonzero(entries["tags_code"] <= ADDRESS_MAX)
        if self.ext is None or not len(extended):
            return entries
        entries = entries.copy()
        for place in extended.tolist():
            unit = self.ext.written(offset_of(int(entries[place]["tags_code"])))
            if unit is not None:
                entries[place]["tags_code"] = unit.tags_code
        return entries

    def entries(self, start: int) -> np.ndarray:
        """Return the entries (of ENTRY_DTYPE) of the file that begins at ``start``, up to its last data."""
        file = self.chain.file(start)
        used = min(-(-file.data_end(0) // SIZE) * SIZE, self.chain.file_size)
        return np.frombuffer(file.read(0, used), ENTRY_DTYPE)

    def written_end(self) -> int:
        """Return the queue offset behind the last entry that is not all zeros; 0 if there is none."""
        for start in reversed(self.chain.starts):
            used = np.flatnonzero(self.entries(start) != _ZEROS)
            if len(used):
                return start // SIZE + int(used[-1]) + 1
        return 0

    def physical_end(self, room: int) -> int:
        """Return the CommitLog offset behind the record of the last entry; 0 if there is none.

        Entries that point behind ``room``, the end of the log's files, are damaged and do not count.
        """
        for start in reversed(self.chain.starts):
            entries = self.entries(start)
            ends = entries["physical_offset"].astype(np.int64) + entries["size"]
            real = (entries["size"] > 0) & (entries["size"] != FILLER.size)
            places = np.flatnonzero(real & (entries["physical_offset"] >= 0) & (ends <= room))
            if len(places):
                return int(ends[places[-1]])
        return 0
