"""The kernel that reads a queue's usual messages: it chooses by their entries, and checks the records.

What a read gives is defined by ``store.get``. This does it for those that nearly all are: their records
lie sound in one file of the log, and in memory. Of anything else it says that it is unusual.
"""

from typing import Any, Final

from cometmq.format.consume_queue_ext import ADDRESS_MAX
from cometmq.format.queue_entry import SIZE
from cometmq.format.record import (
    BODY_AT,
    BODY_CRC_AT,
    BODY_LENGTH_AT,
    HOST_GROWTH,
    MAGIC_AT,
    MAGIC_V1,
    MAGIC_V2,
    MIN_SIZE,
    PHYSICAL_OFFSET_AT,
    QUEUE_OFFSET_AT,
    SYS_FLAG_AT,
)
from cometmq.format.sys_flag import BORN_HOST_V6, STORE_HOST_V6
from cometmq.kernels.crc import crc32_of
from cometmq.kernels.jit import (
    Bytes,
    Longs,
    byte_at,
    bytes_in,
    inlined,
    int64,
    int_at,
    kernel,
    long,
    long_at,
    longs_in,
    longs_out,
    types,
    uint32,
)
from cometmq.kernels.pulls import LAST, LOOKED_AT, PAGE_SIZE, RUNS, UNUSUAL

_V1: Final = MAGIC_V1
_V2: Final = MAGIC_V2
_V6_BORN: Final = int(BORN_HOST_V6)
_V6_STORE: Final = int(STORE_HOST_V6)


@inlined
def _has(codes: Longs, code: int) -> bool:
    """Tell whether a code is among the wanted."""
    for known in codes:
        if known == code:
            return True
    return False


@inlined
def _unsigned(file: Bytes, position: int, width: int) -> Any:
    """Read a number of one or two bytes."""
    number = int64(byte_at(file, position))
    return number if width == 1 else number << 8 | byte_at(file, position + 1)


@inlined
def _is_message(file: Bytes, position: int, size: int, physical_offset: int, queue_offset: int) -> Any:
    """Tell what ``store.read_check.is_message`` tells; all of the ``size`` bytes are in the file."""
    if (
        int_at(file, position) != size
        or long_at(file, position + PHYSICAL_OFFSET_AT) != physical_offset
        or long_at(file, position + QUEUE_OFFSET_AT) != queue_offset
    ):
        return False
    magic = uint32(int_at(file, position + MAGIC_AT))
    if magic == _V1:
        width = 1
    elif magic == _V2:
        width = 2
    else:
        return False
    sys_flag = int_at(file, position + SYS_FLAG_AT)
    growth = (HOST_GROWTH if sys_flag & _V6_BORN else 0) + (HOST_GROWTH if sys_flag & _V6_STORE else 0)
    body, end = position + BODY_AT + growth, position + size
    if body + width + 2 > end:
        return False
    length = int64(int_at(file, position + BODY_LENGTH_AT + growth))
    topic = body + length + width
    if length < 0 or topic + 2 > end:
        return False
    properties = topic + _unsigned(file, topic - width, width) + 2
    if properties > end or properties + _unsigned(file, properties - 2, 2) != end:
        return False
    crc = int_at(file, position + BODY_CRC_AT)
    return length == 0 or int64(crc32_of(file, body, length) & 0x7FFFFFFF) == crc


@kernel(
    long(
        *(bytes_in, longs_in, types.boolean, bytes_in, bytes_in),
        *(long, long, long, long, long, long, long, long),
        *(longs_out, longs_out, longs_out, longs_out),
    )
)
def choose(
    entries: Bytes,
    codes: Longs,
    is_filtered: bool,
    file: Bytes,
    resident: Bytes,
    begin: int,
    end: int,
    queue_offset: int,
    near_offset: int,
    memory_count: int,
    memory_size: int,
    disk_count: int,
    disk_size: int,
    places: Longs,
    sizes: Longs,
    run_sizes: Longs,
    told: Longs,
) -> Any:
    """Choose records and check them: see ``pulls.PullOps.choose``."""
    count, total, looked_at, last = 0, 0, 0, int64(-1)
    for i in range(len(entries) // SIZE):
        offset, size = long_at(entries, i * SIZE), int64(int_at(entries, i * SIZE + 8))
        code = long_at(entries, i * SIZE + 12)
        if count:
            is_near = offset >= near_offset
            if count >= (memory_count if is_near else disk_count):
                break
            if total + size > (memory_size if is_near else disk_size):
                break
        if code <= ADDRESS_MAX:
            return UNUSUAL
        looked_at += 1
        last = offset
        if is_filtered and not _has(codes, code):
            continue
        if count == len(places) or size < MIN_SIZE or not begin <= offset <= end - size:
            return UNUSUAL
        places[count] = offset - begin
        sizes[count] = size
        told[count] = queue_offset + i
        count += 1
        total += size
    missing = 0
    for i in range(count):
        for page in range(places[i] // PAGE_SIZE, (places[i] + sizes[i] - 1) // PAGE_SIZE + 1):
            if not resident[page]:
                places[missing] = places[i]
                sizes[missing] = sizes[i]
                missing += 1
                break
    if missing:
        return UNUSUAL - missing
    for i in range(count):
        if not _is_message(file, places[i], sizes[i], begin + places[i], told[i]):
            return UNUSUAL
    runs, end_of_run = 0, int64(-1)
    for i in range(count):
        place = places[i]
        if place == end_of_run:
            run_sizes[runs - 1] += sizes[i]
        else:
            places[runs] = place
            run_sizes[runs] = sizes[i]
            runs += 1
        end_of_run = place + sizes[i]
    told[LOOKED_AT] = looked_at
    told[LAST] = last
    told[RUNS] = runs
    return count
