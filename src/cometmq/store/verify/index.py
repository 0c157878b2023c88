"""Check the index against the CommitLog, both ways, while the log is scanned."""

from collections.abc import Iterator

import numpy as np

from cometmq.format import layout
from cometmq.format.index import FIRST_ENTRY
from cometmq.kernels.ops import Dispatch
from cometmq.store.directory import REBUILD, StoreDirectory
from cometmq.store.files.finding import Finding, Severity
from cometmq.store.index.index_view import IndexContent
from cometmq.store.log.log_scan import Chunk
from cometmq.store.verify.findings import AT_START, Findings
from cometmq.store.verify.index_file import IndexFileCheck
from cometmq.store.verify.keys import Entries, KeyCheck, Missing, keys_of
from cometmq.store.verify.log import LogExtent

BLOCK_ENTRIES = 1 << 16


class IndexCheck:
    """Compares the index with the records, chunk by chunk.

    Attributes:
        entries: number of entries of the usable index files.
    """

    def __init__(
        self, store: StoreDirectory, log: LogExtent, findings: Findings, recovered_from: int | None
    ) -> None:
        self._store = store
        self._findings = findings
        listed: list[Finding] = []
        views = store.index(listed) if store.settings.message_index_enable else []
        findings.add_all(listed)
        self.entries = sum(view.header.next_entry - FIRST_ENTRY for view in views)
        checks = [
            IndexFileCheck(view, findings, recovered_from, is_newest=view.path == views[-1].path)
            for view in views
        ]
        usable = [check for check in checks if check.run()]
        self._is_whole = len(usable) == len(views) and not any(
            finding.severity is Severity.DAMAGE for finding in listed
        )
        self._views = [check.view for check in usable]
        files = [check.indexed() for check in usable]
        self._keys = KeyCheck(store, log, findings, files, recovered_from, is_whole=self._is_whole)
        self._blocks = _blocks(self._views)
        self._waiting = NOTHING
        self._reach = -1.0  # median CommitLog offset of the last block read

    def check(self, chunk: Chunk, dispatch: Dispatch) -> None:
        """Check the entries that should point to a chunk's records."""
        if not self._store.settings.message_index_enable:
            return
        begin = int(chunk.scan.physical_offset[0])
        self._keys.check(begin, keys_of(chunk, dispatch), self._entries_before(chunk.end_offset))

    def finish(self) -> None:
        """Check the rest: entries behind the log's end, keys behind the index's end."""
        for block in self._blocks:
            self._waiting = self._waiting.followed_by(block)
        self._keys.report_strays(self._waiting)
        report_unindexed(self._store, self._keys.missing, self._findings, is_whole=self._is_whole)

    def _entries_before(self, offset: int) -> Entries:
        """Return the next entries, those that point before a CommitLog offset.

        The index is in the log's order, except damaged entries: so blocks are read until most entries of a
        block point behind ``offset``.
        """
        while self._reach < offset and (block := next(self._blocks, None)) is not None:
            self._reach = float(np.median(block.physical_offset))
            self._waiting = self._waiting.followed_by(block)
        before = self._waiting.physical_offset < offset
        mine, self._waiting = self._waiting.chosen(before), self._waiting.chosen(~before)
        return mine


def report_unindexed(store: StoreDirectory, missing: Missing, findings: Findings, *, is_whole: bool) -> None:
    """Report keys of records behind the index's end, which have no entry."""
    if not missing.keys:
        return
    directory = layout.index_dir(store.root)
    what = f"{missing.keys} keys have no entry, those of records from {missing.begin} on"
    if not store.layer.exists(directory):
        findings.note(directory, "there is no index: messages are not found by key", REBUILD)
    elif store.was_closed and is_whole:
        findings.damage(directory, None, None, what, REBUILD)
    elif is_whole:
        findings.add(Finding(Severity.RECOVERY, directory, None, None, what, AT_START))


def entries_of(file: int, view: IndexContent, at: int) -> Entries:
    """Return at most BLOCK_ENTRIES entries of an index file, from number ``at`` on."""
    block = view.entries[at : at + BLOCK_ENTRIES]
    return Entries(
        np.full(len(block), file, np.int32),
        np.arange(at, at + len(block), dtype=np.int32),
        block["key_hash"].astype(np.int64),
        block["physical_offset"].astype(np.int64),
        block["time_diff_s"].astype(np.int32),
    )


def _blocks(views: list[IndexContent]) -> Iterator[Entries]:
    for file, view in enumerate(views):
        for at in range(FIRST_ENTRY, len(view.entries), BLOCK_ENTRIES):
            yield entries_of(file, view, at)


_NO_INTS, _NO_LONGS = np.zeros(0, np.int32), np.zeros(0, np.int64)
NOTHING = Entries(_NO_INTS, _NO_INTS, _NO_LONGS, _NO_LONGS, _NO_INTS)
