"""Check an index file in itself: header, chains, slots.

Each entry holds the number of the one before it in its slot, the slot that of the newest one.
"""

import numpy as np

from cometmq.format.index import (
    ENTRY_SIZE,
    FIRST_ENTRY,
    HEADER_SIZE,
    SLOT_SIZE,
    IndexHeader,
    entry_position,
    slot_position,
)
from cometmq.kernels.arrays import Ints
from cometmq.store.directory import REBUILD
from cometmq.store.files.finding import Finding, Severity
from cometmq.store.index.index_view import IndexContent
from cometmq.store.verify.findings import AT_START, Findings
from cometmq.store.verify.keys import IndexedFile

BLOCK_ENTRIES = 1_000_000
NEVER = 2**31
"""The number of no entry."""


class IndexFileCheck:
    """Checks one index file.

    Args:
        recovered_from: CommitLog offset from which the next start indexes the log again, if the store was not
            closed. It cuts the entries from there on, and rebuilds the slots of the newest file.
        is_newest: whether this is the newest file.

    Attributes:
        view: the file.
        cut_from: number of the first entry that will be cut.
    """

    def __init__(
        self, view: IndexContent, findings: Findings, recovered_from: int | None, *, is_newest: bool
    ) -> None:
        self.view = view
        self._findings = findings
        self.cut_from = NEVER if recovered_from is None else _first_cut(view, recovered_from)
        is_cut = self.cut_from < view.header.next_entry
        self._is_rebuilt = recovered_from is not None and (is_newest or is_cut)

    def run(self) -> bool:
        """Check the file; return whether its entries can be used."""
        view, header = self.view, self.view.header
        if header.next_entry > view.entry_count:
            what = f"next entry {header.next_entry}, but there is room for {view.entry_count}"
            self._findings.damage(view.path, 0, HEADER_SIZE, what, REBUILD)
            return False
        if header.next_entry > FIRST_ENTRY:
            self._check_header(header)
        newest = self._check_chains(header.next_entry)
        self._check_slots(newest, header)
        return True

    def indexed(self) -> IndexedFile:
        """Return the data of the file that the check of its entries needs."""
        view, first, last = self.view, None, -1
        if FIRST_ENTRY < view.header.next_entry <= view.entry_count:
            first, last = (int(view.entries[at]["physical_offset"]) for at in (FIRST_ENTRY, -1))
        return IndexedFile(view.path, view.header, view.slot_count, self.cut_from, first, last)

    def _check_header(self, header: IndexHeader) -> None:
        entries = self.view.entries
        first, last = int(entries[FIRST_ENTRY]["physical_offset"]), int(entries[-1]["physical_offset"])
        if header.begin_physical_offset != first:
            what = f"begin physical offset {header.begin_physical_offset}, but the entry says {first}"
            self._add(0, HEADER_SIZE, what, recovered=False)
        if header.end_physical_offset != last:
            what = f"end physical offset {header.end_physical_offset}, but the entry says {last}"
            self._add(0, HEADER_SIZE, what, recovered=self.cut_from < header.next_entry)

    def _check_chains(self, next_entry: int) -> Ints:
        """Check the chains of entries; return the number of each slot's newest entry, int32[slot_count]."""
        view = self.view
        newest = np.zeros(view.slot_count, np.int32)
        for at in range(FIRST_ENTRY, next_entry, BLOCK_ENTRIES):
            block = view.entries[at : at + BLOCK_ENTRIES]
            slots = (block["key_hash"].astype(np.int64) & 0x7FFF_FFFF) % view.slot_count
            order = np.argsort(slots, kind="stable")
            sorted_slots, numbers = slots[order], (at + order).astype(np.int32)
            opens = np.ones(len(block), np.bool_)  # whether it is the first of its slot in this block
            opens[1:] = sorted_slots[1:] != sorted_slots[:-1]
            previous = np.empty(len(block), np.int32)
            previous[1:] = numbers[:-1]
            previous[opens] = newest[sorted_slots[opens]]
            closes = np.append(opens[1:], True)
            newest[sorted_slots[closes]] = numbers[closes]
            wrong = np.flatnonzero(block["previous"][order] != previous)
            for place in wrong[np.argsort(numbers[wrong])].tolist():
                number = int(numbers[place])
                self._add_entry(
                    number, f"previous is {block['previous'][order[place]]}, expected {previous[place]}"
                )
            for place in np.flatnonzero(block["key_hash"] < 0).tolist():
                self._add_entry(at + place, f"key hash {block['key_hash'][place]} is negative")
        return newest

    def _check_slots(self, newest: Ints, header: IndexHeader) -> None:
        slots = self.view.slots
        for slot in np.flatnonzero(slots != newest).tolist():
            what = f"slot {slot} holds {slots[slot]}, its newest entry is {newest[slot]}"
            self._add(slot_position(slot), SLOT_SIZE, what, recovered=self._is_rebuilt)
        used = int(np.count_nonzero(newest))
        if header.used_slots != used:
            what = f"used slots {header.used_slots}, but {used} are"
            self._add(0, HEADER_SIZE, what, recovered=self._is_rebuilt)

    def _add_entry(self, number: int, what: str) -> None:
        position = entry_position(number, self.view.slot_count)
        self._add(position, ENTRY_SIZE, f"entry {number}: {what}", recovered=number >= self.cut_from)

    def _add(self, position: int, size: int, what: str, *, recovered: bool) -> None:
        severity, remedy = (Severity.RECOVERY, AT_START) if recovered else (Severity.DAMAGE, REBUILD)
        self._findings.add(Finding(severity, self.view.path, position, size, what, remedy))


def _first_cut(view: IndexContent, physical_offset: int) -> int:
    """Return the first entry that ``IndexFile.cut`` would cut for a CommitLog offset; NEVER if none."""
    for at in range(FIRST_ENTRY, len(view.entries), BLOCK_ENTRIES):
        offsets = view.entries[at - 1 : at + BLOCK_ENTRIES]["physical_offset"].astype(np.int64)
        fits = (offsets[1:] < physical_offset) & (np.diff(offsets) >= 0)
        if not fits.all():
            return at + int(np.argmin(fits))
    return NEVER
