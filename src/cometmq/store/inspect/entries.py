"""Rows of ConsumeQueue, ConsumeQueueExt and index files, and of the checkpoint."""

from collections.abc import Iterator

import numpy as np

from cometmq.format import consume_queue_ext
from cometmq.format.checkpoint import Checkpoint
from cometmq.format.index import (
    ENTRY_SIZE,
    FIRST_ENTRY,
    HEADER_SIZE,
    NO_ENTRY,
    SLOT_SIZE,
    IndexHeader,
    entry_position,
    slot_position,
)
from cometmq.format.queue_entry import SIZE, QueueEntry, unpack
from cometmq.store.index.index_view import IndexView
from cometmq.store.inspect.row import DAMAGED, UNUSED, Field, InspectRow, time_field

SLOTS_SHOWN_MAX = 20


def queue_rows(view: memoryview, base_offset: int, position: int) -> Iterator[InspectRow]:
    """Return the entries of a ConsumeQueue file from ``position`` on.

    Args:
        base_offset: position of the file's first byte in its queue.
    """
    used = _data_end(view)
    last = -1
    while position < len(view):
        if position >= used:
            yield InspectRow(UNUSED, position, len(view) - position, [], "zeros")
            return
        if position + SIZE > len(view):
            yield InspectRow(DAMAGED, position, len(view) - position, [], "the file ends within an entry")
            return
        entry = unpack(view, position)
        what, note = _classify(entry, last)
        fields = [
            Field(position, "queue_offset", (base_offset + position) // SIZE),
            Field(position, "physical_offset", entry.physical_offset),
            Field(position + 8, "size", entry.size),
            _tags_code(position + 12, entry.tags_code),
        ]
        yield InspectRow(what, position, SIZE, fields, note)
        if what == "entry":
            last = entry.physical_offset
        position += SIZE


def ext_rows(view: memoryview, base_offset: int, position: int) -> Iterator[InspectRow]:
    """Return the units of a ConsumeQueueExt file from ``position`` on, where one must begin.

    Args:
        base_offset: position of the file's first byte in its chain of files.
    """
    while (unit := consume_queue_ext.unpack(view, position)) is not None:
        fields = [
            Field(position, "offset", base_offset + position),
            Field(position + 2, "tags_code", unit.tags_code),
            time_field(position + 10, "store_time", unit.store_time),
            Field(position + 20, "bitmap", unit.bitmap.hex(), unit.bitmap.hex() or "none"),
        ]
        yield InspectRow("unit", position, unit.size, fields)
        position += unit.size
    rest = bytes(view[position:])
    if rest.startswith(consume_queue_ext.BLANK):
        yield InspectRow("blank", position, len(rest), [], "the next unit is in the next file")
    elif rest:
        is_unused = not rest.strip(b"\0")
        yield InspectRow(
            UNUSED if is_unused else DAMAGED, position, len(rest), [], "zeros" if is_unused else "no unit"
        )


def index_rows(index: IndexView, number: int | None) -> Iterator[InspectRow]:
    """Return header, slots and entries of an index file, or only the entries from ``number`` on."""
    header = index.header
    if number is None:
        yield _header(header, index)
        yield from _slots(index)
    for at in range(number or FIRST_ENTRY, min(header.next_entry, index.entry_count)):
        key_hash, physical_offset, time_diff_s, previous = index.entries[at].item()
        position = entry_position(at, index.slot_count)
        fields = [
            Field(position, "number", at),
            Field(position, "key_hash", key_hash),
            Field(position + 4, "physical_offset", physical_offset),
            Field(position + 12, "time_diff_s", time_diff_s),
            Field(position + 16, "previous", previous),
        ]
        wrong = not NO_ENTRY <= previous < at or key_hash < 0
        note = "previous must be less than its own number, the hash not negative" if wrong else ""
        yield InspectRow(DAMAGED if wrong else "entry", position, ENTRY_SIZE, fields, note)


def checkpoint_rows(data: memoryview) -> Iterator[InspectRow]:
    """Return the fields of a checkpoint. Raises FormatError if it is too short."""
    checkpoint = Checkpoint.unpack(data)
    fields = [
        time_field(place * 8, name, value) if name.endswith("timestamp") else Field(place * 8, name, value)
        for place, (name, value) in enumerate(checkpoint._asdict().items())
    ]
    yield InspectRow("checkpoint", 0, len(data), fields)


def _tags_code(position: int, code: int) -> Field:
    if code > consume_queue_ext.ADDRESS_MAX:
        return Field(position, "tags_code", code)
    return Field(position, "tags_code", code, f"in the unit at {consume_queue_ext.offset_of(code)}")


def _classify(entry: QueueEntry, last: int) -> tuple[str, str]:
    if entry.is_filler:
        return "filler", "its message is lost"
    if entry == (0, 0, 0):
        return DAMAGED, "empty, but entries follow"
    if entry.is_end:
        return DAMAGED, "offset or size cannot be"
    if entry.physical_offset <= last:
        return DAMAGED, "does not lie behind the one before"
    return "entry", ""


def _header(header: IndexHeader, index: IndexView) -> InspectRow:
    fields = [
        time_field(0, "begin_time", header.begin_time),
        time_field(8, "end_time", header.end_time),
        Field(16, "begin_physical_offset", header.begin_physical_offset),
        Field(24, "end_physical_offset", header.end_physical_offset),
        Field(32, "used_slots", header.used_slots, f"{header.used_slots} of {index.slot_count}"),
        Field(36, "next_entry", header.next_entry, f"{header.next_entry} of {index.entry_count}"),
    ]
    wrong = header.next_entry > index.entry_count
    return InspectRow(
        DAMAGED if wrong else "header", 0, HEADER_SIZE, fields, "too many entries" if wrong else ""
    )


def _slots(index: IndexView) -> Iterator[InspectRow]:
    used = np.flatnonzero(index.slots)
    for slot in used[:SLOTS_SHOWN_MAX].tolist():
        position, newest = slot_position(slot), int(index.slots[slot])
        fields = [Field(position, "slot", slot), Field(position, "newest_entry", newest)]
        wrong = not NO_ENTRY < newest < index.header.next_entry
        yield InspectRow(
            DAMAGED if wrong else "slot", position, SLOT_SIZE, fields, "no such entry" if wrong else ""
        )
    if len(used) > SLOTS_SHOWN_MAX:
        first, last = slot_position(int(used[SLOTS_SHOWN_MAX])), slot_position(index.slot_count)
        yield InspectRow(
            "slots", first, last - first, [], f"{len(used) - SLOTS_SHOWN_MAX} more slots are used"
        )


def _data_end(view: memoryview) -> int:
    """Return the position behind the last entry that is not all zeros."""
    used = np.flatnonzero(np.frombuffer(view, np.uint8))
    return int(used[-1]) // SIZE * SIZE + SIZE if len(used) else 0
