"""The operations in plain Python: their definition, in use until the compiled ones are loaded."""

import zlib
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Final

import numpy as np

from cometmq.format import index, properties, queue_entry
from cometmq.format.checksum import Crc
from cometmq.format.delay_level import DelayLevels
from cometmq.format.dispatch import index_keys, queue_tags_code
from cometmq.format.host import IPV4_SIZE
from cometmq.format.java.java_hash import index_key_hash
from cometmq.format.record import BORN_HOST_AT, STORE_HOST_AT, RecordHead
from cometmq.format.scan import StopReason, check
from cometmq.format.sys_flag import (
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
    TRANSACTION_NOT,
    TRANSACTION_ROLLBACK,
)
from cometmq.kernels.acks.plain import PlainAcks
from cometmq.kernels.arrays import PAGE_SIZE, Bytes, Flags, Ints, Longs
from cometmq.kernels.frames.plain import PlainFrames
from cometmq.kernels.ops import Dispatch, IndexKeys, Runs, Scan
from cometmq.kernels.pulls.plain import PlainPulls
from cometmq.kernels.queries.plain import PlainQueries
from cometmq.kernels.sends.plain import PlainSends
from cometmq.message import Buffer

if TYPE_CHECKING:
    import pyarrow as pa

sends: Final = PlainSends()
"""The plain operation on sends."""
pulls: Final = PlainPulls(Crc.BODY)
"""The plain operations on pulls."""
queries: Final = PlainQueries(Crc.BODY)
"""The plain operations on queries."""
acks: Final = PlainAcks()
"""The plain operation on acknowledgements."""
frames: Final = PlainFrames()
"""The plain operation that reads frames."""
body: Final = "plain"

_LONG_SIGN: Final = 2**63
_INT_SIGN: Final = 2**31


def crc32(buffer: Buffer | Bytes) -> int:
    """Compute the CRC-32 of a buffer: see ``ops.Ops.crc32``."""
    return zlib.crc32(_view(buffer))


def scan(
    buffer: Buffer | Bytes,
    *,
    base_offset: int | None,
    start: int = 0,
    end: int | None = None,
    crc: Crc = Crc.BODY,
    max_records: int | None = None,
) -> Scan:
    """Scan the records of a buffer: see ``ops.Ops.scan``."""
    data = _view(buffer)
    end = len(data) if end is None else min(end, len(data))
    heads: list[RecordHead] = []
    position = start
    while isinstance(found := check(data, position, end, base_offset=base_offset, crc=crc), RecordHead):
        if len(heads) == max_records:
            break
        heads.append(found)
        position += found.size
    reason = StopReason.LIMIT if isinstance(found, RecordHead) else found.reason
    return Scan(
        position=_longs(head.position for head in heads),
        queue_offset=_longs(head.queue_offset for head in heads),
        physical_offset=_longs(head.physical_offset for head in heads),
        born_time=_longs(head.born_time for head in heads),
        store_time=_longs(head.store_time for head in heads),
        prepared_transaction_offset=_longs(head.prepared_transaction_offset for head in heads),
        topic_position=_longs(head.topic_position for head in heads),
        body_position=_longs(head.body_position for head in heads),
        properties_position=_longs(head.properties_position for head in heads),
        born_host_position=_longs(head.position + BORN_HOST_AT for head in heads),
        store_host_position=_longs(
            head.position + STORE_HOST_AT + len(head.born_host) - IPV4_SIZE for head in heads
        ),
        size=_ints(head.size for head in heads),
        queue_id=_ints(head.queue_id for head in heads),
        flag=_ints(head.flag for head in heads),
        sys_flag=_ints(head.sys_flag for head in heads),
        reconsume_times=_ints(head.reconsume_times for head in heads),
        body_crc=_ints((head.body_crc ^ _INT_SIGN) - _INT_SIGN for head in heads),
        topic_length=_ints(head.topic_length for head in heads),
        body_length=_ints(head.body_length for head in heads),
        properties_length=_ints(head.properties_length for head in heads),
        born_host_length=_ints(len(head.born_host) for head in heads),
        store_host_length=_ints(len(head.store_host) for head in heads),
        stop_position=position,
        stop_reason=reason,
    )


def dispatch(
    buffer: Buffer | Bytes, scan: Scan, delay_levels: DelayLevels, *, named: bool = True
) -> Dispatch:
    """Compute what records contribute to consume queues and index: see ``ops.Ops.dispatch``."""
    data = _view(buffer)
    numbers: dict[tuple[str, int], int] = {}
    queue, tags_code, is_light, key_hash, key_record = [], [], [], [], []
    transaction = scan.sys_flag & TRANSACTION_MASK
    in_index = transaction != TRANSACTION_ROLLBACK
    parts = zip(
        texts(data, scan.topic_position, scan.topic_length, "surrogateescape"),
        map(properties.decode, slices(data, scan.properties_position, scan.properties_length)),
        scan.queue_id.tolist(),
        scan.store_time.tolist(),
        in_index.tolist(),
        strict=True,
    )
    for record, (topic, by_name, queue_id, store_time, indexed) in enumerate(parts):
        queue.append(numbers.setdefault((topic, queue_id), len(numbers)))
        code = queue_tags_code(topic, by_name, store_time, delay_levels)
        is_light.append(properties.INNER_MULTI_QUEUE_OFFSET in by_name)
        tags_code.append((code + _LONG_SIGN) % (2 * _LONG_SIGN) - _LONG_SIGN)
        for key in index_keys(by_name) if indexed else ():
            key_hash.append(index_key_hash(topic, key))
            key_record.append(record)
    in_queue = (transaction == TRANSACTION_NOT) | (transaction == TRANSACTION_COMMIT)
    return Dispatch(
        list(numbers) if named else [],
        _ints(queue if named else []),
        _longs(tags_code),
        in_queue,
        in_index,
        np.array(is_light, np.bool_),
        _ints(key_hash),
        _longs(key_record),
    )


def read_keys(buffer: Buffer | Bytes, *, base_offset: int, start: int, end: int) -> IndexKeys:
    """Hash the index keys of records: see ``ops.Ops.read_keys``."""
    found = scan(buffer, base_offset=base_offset, start=start, end=end, crc=Crc.NONE)
    keys = dispatch(buffer, found, DelayLevels(()), named=False)
    record = keys.key_record
    return IndexKeys(
        keys.key_hash, found.physical_offset[record], found.store_time[record], found.stop_position
    )


def group_entries(rows: Longs, runs: Runs) -> int:
    """Group consume queue entries by queue: see ``ops.Ops.group_entries``."""
    entries = _view(runs.entries)
    for done, (number, queue_offset, physical_offset, size, tags_code) in enumerate(rows.tolist()):
        if number >= len(runs.newest):
            return done
        run, (first, end) = int(runs.newest[number]), runs.window.tolist()
        _, begin, count, _, previous = runs.rows[run % len(runs.rows)].tolist()
        if run < first or count == runs.length or begin + count != queue_offset:
            if end - first == len(runs.rows):
                return done
            run, begin, count, previous = end, queue_offset, 0, run
            runs.newest[number], runs.window[1] = run, end + 1
        place = run % len(runs.rows)
        at = (place * runs.length + count) * queue_entry.SIZE
        entries[at : at + queue_entry.SIZE] = queue_entry.pack(physical_offset, size, tags_code)
        runs.rows[place] = number, begin, count + 1, physical_offset + size, previous
    return len(rows)


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
    file = _view(image)
    slot_count = (len(file) - index.HEADER_SIZE) // index.SLOT_SIZE
    header = index.IndexHeader.unpack(file)
    room = min(len(entries) // index.ENTRY_SIZE, entry_count - header.next_entry)
    keys = list(zip(key_hashes.tolist(), physical_offsets.tolist(), store_times.tolist(), strict=True))
    taken = keys[: max(room, 0)]
    for i, (key_hash, physical_offset, store_time) in enumerate(taken):
        position = index.slot_position(index.slot_of(key_hash, slot_count))
        previous = index.unpack_slot(file, position)
        if not index.NO_ENTRY < previous <= header.next_entry:
            previous = index.NO_ENTRY
        time_diff = index.time_diff_s(store_time, header.begin_time)
        entry = index.IndexEntry(key_hash, physical_offset, time_diff, previous)
        _view(entries)[i * index.ENTRY_SIZE : (i + 1) * index.ENTRY_SIZE] = entry.pack()
        file[position : position + index.SLOT_SIZE] = index.pack_slot(header.next_entry)
        dirty_pages[position // PAGE_SIZE] = True
        if header.next_entry == index.FIRST_ENTRY:
            header = header._replace(begin_time=store_time, begin_physical_offset=physical_offset)
        header = header._replace(
            end_time=store_time,
            end_physical_offset=physical_offset,
            used_slots=header.used_slots + (previous == index.NO_ENTRY),
            next_entry=header.next_entry + 1,
        )
    if taken:
        file[: index.HEADER_SIZE] = header.pack()
        dirty_pages[0] = True
    return len(taken)


def select(
    buffer: Buffer | Bytes,
    scan: Scan,
    *,
    topics: Collection[str] | None = None,
    begin_time: int | None = None,
    end_time: int | None = None,
) -> Longs:
    """Select records by topic and store time: see ``ops.Ops.select``."""
    names = texts(_view(buffer), scan.topic_position, scan.topic_length, "surrogateescape")
    return _longs(
        row
        for row, (topic, time) in enumerate(zip(names, scan.store_time.tolist(), strict=True))
        if (topics is None or topic in topics)
        and (begin_time is None or begin_time <= time)
        and (end_time is None or time < end_time)
    )


def arrow(buffer: Buffer | Bytes, scan: Scan, rows: Longs, columns: Collection[str]) -> "pa.RecordBatch":
    """Gather records into Arrow columns: see ``ops.Ops.arrow``."""
    from cometmq.kernels.arrow import plain as plain_arrow  # noqa: PLC0415  pyarrow is large; only Spark has it

    return plain_arrow.gather(buffer, scan, rows, columns)


def slices(data: memoryview, positions: Longs, lengths: Ints) -> list[memoryview]:
    """Return the parts of ``data`` at ``positions``, int64[], of ``lengths``, int32[], in bytes."""
    return [
        data[begin : begin + length]
        for begin, length in zip(positions.tolist(), lengths.tolist(), strict=True)
    ]


def texts(data: memoryview, positions: Longs, lengths: Ints, errors: str) -> list[str]:
    """Return the parts of ``data`` that ``slices`` returns, decoded from UTF-8."""
    return [str(part, "utf-8", errors) for part in slices(data, positions, lengths)]


def _view(buffer: Buffer | Bytes) -> memoryview:
    return np.frombuffer(buffer, np.uint8).data


def _longs(numbers: Iterable[int]) -> Longs:
    return np.fromiter(numbers, np.int64)


def _ints(numbers: Iterable[int]) -> Ints:
    return np.fromiter(numbers, np.int32)
