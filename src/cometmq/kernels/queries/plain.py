"""The operations on queries in plain Python: the definition, and what serves until others are loaded."""

from struct import Struct
from typing import Final

from cometmq.errors import CometMQError
from cometmq.format.checksum import Crc
from cometmq.format.dispatch import KeyKind, holds_key
from cometmq.format.index import (
    ENTRY_SIZE,
    HEADER_SIZE,
    NO_ENTRY,
    SLOT_SIZE,
    IndexEntry,
    slot_of,
    slot_position,
    unpack_slot,
)
from cometmq.format.java.java_hash import index_key_hash
from cometmq.format.record import MIN_SIZE, RecordHead
from cometmq.format.scan import whole_record
from cometmq.kernels.arrays import PAGE_SIZE, Bytes, Longs
from cometmq.kernels.frames.fields import KINDS
from cometmq.kernels.frames.rows import Frames
from cometmq.kernels.pulls.rows import AnswerStop, LogBytes
from cometmq.kernels.queries.rows import (
    ANSWER_SIZE_MAX,
    TEXTS_SIZE,
    UNIQUE_COUNT,
    IndexBytes,
    QueryConstants,
    QueryRow,
    QueryRows,
    QueryState,
)
from cometmq.wire.frame import Command
from cometmq.wire.headers import Header, QueryMessageHeader, ViewMessageHeader, parse

_INT: Final = Struct(">i")
_LOOKING: Final = int(QueryState.LOOKING)
_MISSING: Final = int(QueryState.MISSING)
_FOUND: Final = int(QueryState.FOUND)
_ANSWERED: Final = int(QueryState.ANSWERED)
_NOTHING: Final = int(QueryState.NOTHING)
_LEFT: Final = int(QueryState.LEFT)
_EMPTY: Final = QueryRow()  # by key: it is LOOKING, and nothing is found
_LOOKED_UP: Final = _FOUND, _LOOKING


class PlainQueries:
    """The plain body of the operations (a ``rows.QueryOps``).

    Args:
        crc: the checksum by which records are checked.
    """

    def __init__(self, crc: Crc) -> None:
        self._crc = crc

    def read(self, frames: Frames, first: int, last: int, queries: QueryRows, /) -> int:
        """Read queries: see ``rows.QueryOps.read``."""
        count = min(last - first, len(queries.rows) - queries.count)
        for number in range(first, first + count):
            command = frames.request(number)
            try:
                header = parse(KINDS[command.code][1], command.ext_fields)
            except CometMQError:
                return number - first  # as a command it is refused
            if not has_row(header):
                return number - first
            add(queries, command, header, number)
        return count

    def find(
        self, file: IndexBytes, number: int, max_count: int, hops_max: int, queries: QueryRows, /
    ) -> int:
        """Look up keys: see ``rows.QueryOps.find``."""
        missing = 0
        for at in range(queries.count):
            query = queries.rows[at]
            if query.state == _LOOKING and query.files == number:
                most = min(query.max_count, max_count)
                if 0 < most <= queries.offsets.shape[1]:
                    _look_up(file, query, most, hops_max, queries.offsets[at])
                else:
                    query.state = _LEFT
                missing += query.state == _MISSING
        return missing

    def answer(
        self,
        queries: QueryRows,
        constants: QueryConstants,
        answers: Bytes,
        file: LogBytes,
        confirm_offset: int,
        first: int,
        at: int,
        /,
    ) -> tuple[int, int, AnswerStop]:
        """Respond to queries: see ``rows.QueryOps.answer``."""
        room, out = len(answers) - ANSWER_SIZE_MAX - len(constants.data), answers.data
        for number in range(first, queries.count):
            query = queries.rows[number]
            query.answer_end = at
            if query.state not in _LOOKED_UP:
                continue
            found = queries.found(number)
            if not found or (not query.is_by_key and found[0] >= confirm_offset):
                query.state = _NOTHING
                continue
            if not file.begin <= found[0] < file.end:
                return number, at, AnswerStop.ELSEWHERE
            records = self._records(query, found, _key_of(queries, number), file)
            if query.state == _MISSING:
                return number, at, AnswerStop.MISSING
            if query.state == _LEFT:
                continue
            size = sum(map(len, records))
            if at + size > room:
                return number, at, AnswerStop.FULL
            response = b"".join((_answer_start(query, size, constants), *reversed(records)))
            out[at : at + len(response)] = response
            at += len(response)
            query.state, query.answer_end = _ANSWERED, at
        return queries.count, at, AnswerStop.DONE

    def _records(
        self, query: QueryRow, offsets: list[int], key: tuple[str, str, KeyKind] | None, file: LogBytes
    ) -> list[bytes]:
        """Return a query's records, newest first; none, and its state says why, if one cannot be returned."""
        view, resident, before = file.data.data, file.resident.data, file.end
        records: list[bytes] = []
        for offset in offsets:
            at = offset - file.begin
            query.state = _LEFT
            if not file.begin <= offset <= file.end - MIN_SIZE or offset >= before:
                return []
            if _lacks(query, resident, at, at + MIN_SIZE):
                return []
            (size,) = _INT.unpack_from(view, at)
            if not MIN_SIZE <= size <= file.end - offset or _lacks(query, resident, at, at + size):
                return []
            record = bytes(view[at : at + size])
            head = whole_record(record, 0, size, offset, self._crc)
            if head is None:
                return []
            if key is not None and not record_has_key(record, head, *key):
                return []
            records.append(record)
            before = offset
        query.state = _FOUND
        return records


def has_row(header: Header) -> bool:
    """Check that a query has a row: not if its topic and key together are too long, or not ASCII."""
    if not isinstance(header, QueryMessageHeader):
        return True
    text = header.topic + header.key
    return text.isascii() and len(text) <= TEXTS_SIZE


def add(queries: QueryRows, command: Command, header: Header, frame: int) -> None:
    """Add the query of a request that has a row, and whose frame has the row ``frame``."""
    number = queries.count
    queries.rows[number] = _EMPTY
    row = queries.rows[number]
    row.frame = frame
    row.opaque, row.is_binary = command.opaque, command.serialize_type
    if isinstance(header, ViewMessageHeader):
        row.state, row.count, queries.offsets[number, 0] = _FOUND, 1, header.physical_offset
    else:
        assert isinstance(header, QueryMessageHeader)
        text, at = (header.topic + header.key).encode(), number * TEXTS_SIZE
        queries.texts.data[at : at + len(text)] = text
        row.is_by_key, row.is_unique = 1, header.is_unique_key
        row.key_hash = index_key_hash(header.topic, header.key)
        row.topic_size, row.key_size = len(header.topic), len(header.key)
        row.max_count = UNIQUE_COUNT if header.is_unique_key else header.max_count
        row.begin_time, row.end_time = header.begin_time, header.end_time
    queries.count += 1


def _lacks(query: QueryRow, resident: memoryview, begin: int, end: int) -> bool:
    """Check whether bytes are not known to be in memory; if so, mark the query as MISSING them."""
    if all(resident[begin // PAGE_SIZE : (end - 1) // PAGE_SIZE + 1]):
        return False
    query.state, query.place, query.place_end = _MISSING, begin, end
    return True


def _look_up(file: IndexBytes, query: QueryRow, most: int, hops_max: int, offsets: Longs) -> None:
    """Look up a query in an index file; what is found does not count if it is MISSING bytes, or LEFT."""
    _, _, begin_time, end_time, _ = file.numbers
    count, found = query.count, []
    if begin_time <= query.end_time and end_time >= query.begin_time:
        found = _follow(file, query, most - count, hops_max)
    if query.state == _LOOKING:
        if found:
            offsets[count : count + len(found)] = found
        query.count = count + len(found)
        query.files += 1
        if begin_time < query.begin_time or query.count >= most:
            query.state = _FOUND


def _follow(file: IndexBytes, query: QueryRow, most: int, hops_max: int) -> list[int]:
    """Follow the chain of a query's slot; return the offsets of ``most`` records at most, newest first.

    What is found does not count if the query's state changes.
    """
    entries_at, written, file_begin_time, _, next_entry = file.numbers
    view, tail, resident = file.file.data, file.tail.data, file.resident.data
    found: list[int] = []
    slot = slot_position(slot_of(query.key_hash, (len(file.image) - HEADER_SIZE) // SLOT_SIZE))
    if not file.is_held and _lacks(query, resident, slot, slot + SLOT_SIZE):
        return []
    number = unpack_slot(file.image.data, slot)
    written = min(written, (len(view) - entries_at) // ENTRY_SIZE)
    last = min(next_entry, written + len(tail) // ENTRY_SIZE)
    for _ in range(hops_max):
        if not NO_ENTRY < number < last or len(found) >= most:
            return found
        if number < written:
            at = entries_at + number * ENTRY_SIZE
            if _lacks(query, resident, at, at + ENTRY_SIZE):
                return []
            entry = IndexEntry.unpack(view, at)
        else:
            entry = IndexEntry.unpack(tail, (number - written) * ENTRY_SIZE)
        store_time = entry.store_time(file_begin_time)
        if entry.time_diff_s < 0:
            return found
        if entry.key_hash == query.key_hash and query.begin_time <= store_time <= query.end_time:
            found.append(entry.physical_offset)
        if store_time < query.begin_time:
            return found
        last = number  # a sound chain only goes back in the file; a damaged one could be endless
        number = entry.previous
    query.state = _LEFT
    return []


def _key_of(queries: QueryRows, number: int) -> tuple[str, str, KeyKind] | None:
    """Return the topic and the key of a query, and which keys count; None for a query by id."""
    query = queries.rows[number]
    if not query.is_by_key:
        return None
    begin, key_at = number * TEXTS_SIZE, number * TEXTS_SIZE + query.topic_size
    text = queries.texts.data
    topic, key = str(text[begin:key_at], "ascii"), str(text[key_at : key_at + query.key_size], "ascii")
    return topic, key, KeyKind.UNIQUE if query.is_unique else KeyKind.ANY


def record_has_key(record: bytes, head: RecordHead, topic: str, key: str, kind: KeyKind) -> bool:
    """Check that a record has a topic and a key, like ``format.dispatch.has_key`` without decoding it all."""
    own_topic = record[head.topic_position : head.topic_position + head.topic_length]
    is_of_topic = str(own_topic, "utf-8", "surrogateescape") == topic
    return is_of_topic and holds_key(record[head.properties_position : head.size], key, kind)


def _answer_start(query: QueryRow, body_size: int, constants: QueryConstants) -> bytes:
    """Return the frame that responds to a query, up to its body."""
    template, numbers = constants.by_key if query.is_by_key else constants.by_id
    return template.start(query.opaque, numbers, body_size, is_binary=query.is_binary)
