"""The kernel that inserts many keys into an index file's image; ``queries.compiled`` looks keys up.

The image is the file's first ``40 + 4 × slot_count`` bytes, header and slots, as they are on the disk.
Entries are only appended and never changed, so they need not be in memory: an insert writes them into a
buffer, which the caller then writes to the file.
"""

from typing import Any

from cometmq.format.index import ENTRY_SIZE, FIRST_ENTRY, HEADER_SIZE, NO_ENTRY, SLOT_SIZE, TIME_DIFF_MAX_S
from cometmq.kernels.arrays import PAGE_SIZE, Bytes, Flags, Ints, Longs
from cometmq.kernels.compiling.buffers import int_at, long_at, put_int, put_long
from cometmq.kernels.compiling.jit import inlined, int64, kernel
from cometmq.kernels.compiling.signatures import bytes_out, flags_out, ints_in, long, longs_in


def index_insert(
    image: Bytes,
    dirty_pages: Flags,
    entries: Bytes,
    key_hashes: Ints,
    physical_offsets: Longs,
    store_times: Longs,
    *,
    entry_count: int,
) -> int:
    """Insert keys into an index file's image: see ``ops.Ops.index_insert``."""
    assert len(image) > HEADER_SIZE and len(dirty_pages) * PAGE_SIZE >= len(image)
    assert len(key_hashes) == len(physical_offsets) == len(store_times)
    taken: int = _insert(image, dirty_pages, entries, key_hashes, physical_offsets, store_times, entry_count)
    return taken


@inlined
def slot_at(key_hash: Any, slot_count: Any) -> Any:
    """Return the position in the image of the slot for a key's hash."""
    return HEADER_SIZE + key_hash % slot_count * SLOT_SIZE


@kernel(long(bytes_out, flags_out, bytes_out, ints_in, longs_in, longs_in, long))
def _insert(
    image: Bytes,
    dirty_pages: Flags,
    entries: Bytes,
    key_hashes: Ints,
    physical_offsets: Longs,
    store_times: Longs,
    entry_count: int,
) -> Any:
    slot_count = (len(image) - HEADER_SIZE) // SLOT_SIZE
    begin_time, begin_offset = long_at(image, 0), long_at(image, 16)
    end_time, end_offset = long_at(image, 8), long_at(image, 24)
    used_slots, next_entry = int64(int_at(image, 32)), int64(int_at(image, 36))
    next_entry = max(next_entry, FIRST_ENTRY)
    taken = min(len(key_hashes), len(entries) // ENTRY_SIZE, max(entry_count - next_entry, 0))
    for i in range(taken):  # slots are far apart: these loads do not wait for each other
        put_int(entries, i * ENTRY_SIZE + 16, int_at(image, slot_at(key_hashes[i], slot_count)))
    for i in range(taken):
        store_time = store_times[i]
        slot = slot_at(key_hashes[i], slot_count)
        previous = int_at(image, slot)
        if previous < NO_ENTRY or previous > next_entry:
            previous = NO_ENTRY
        time_diff = 0
        if 0 < begin_time < store_time:
            time_diff = min((store_time - begin_time) // 1000, TIME_DIFF_MAX_S)
        put_int(entries, i * ENTRY_SIZE, key_hashes[i])
        put_long(entries, i * ENTRY_SIZE + 4, physical_offsets[i])
        put_int(entries, i * ENTRY_SIZE + 12, time_diff)
        put_int(entries, i * ENTRY_SIZE + 16, previous)
        put_int(image, slot, next_entry)
        dirty_pages[slot // PAGE_SIZE] = True
        if next_entry == FIRST_ENTRY:
            begin_time, begin_offset = store_time, physical_offsets[i]
        if previous == NO_ENTRY:
            used_slots += 1
        next_entry += 1
        end_time, end_offset = store_time, physical_offsets[i]
    if taken:
        put_long(image, 0, begin_time)
        put_long(image, 8, end_time)
        put_long(image, 16, begin_offset)
        put_long(image, 24, end_offset)
        put_int(image, 32, used_slots)
        put_int(image, 36, next_entry)
        dirty_pages[0] = True
    return taken
