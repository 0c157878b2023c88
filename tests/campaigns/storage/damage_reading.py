"""Reading all that a store holds, by queue, by id and by key, in two milliseconds.

What a read gives is told by the bytes that it goes through: the records', its queue's entries, the index. So
what the same bytes gave before is not read again, but for a part that is another one in each case; all that
differs is read, and what lies beside it.
"""

from collections import OrderedDict
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import chain
from typing import Final

from tests.campaigns.storage.damage_sample import Queue, Sample

from cometmq.format import layout
from cometmq.store import MessageStore
from cometmq.store.index.index_file import IndexFile
from cometmq.store.reading import run
from cometmq.testing.memory_disk import MemoryDisk

TURNS: Final = 400
"""Of the records and keys that are known by their bytes, one in so many is read all the same."""
BESIDE: Final = 2
"""So many messages of a queue around those that differ are read, too."""
TWICE: Final = -1
"""Stands for a record that was given twice."""
QUERY_MAX: Final = 64
STATES_MAX: Final = 100
TIME_MAX: Final = 2**63 - 1

_found_in: OrderedDict[bytes, list[list[int]]] = OrderedDict()
"""By the state of an index file: the places that it finds for each key of the sample."""
_sound_queues: set[tuple[object, ...]] = set()
"""States of queues that gave all their records."""


def read_all(
    store: MessageStore, sample: Sample, disk: MemoryDisk, hit: set[int], turn: int
) -> tuple[set[int], set[int]]:
    """Read all: which records are missing anywhere, which are not what they were.

    Args:
        hit: the records that were damaged: they are read by each of their keys.
        turn: which part of what is known is read all the same.
    """
    missing: set[int] = set()
    changed: set[int] = set()
    wanted = sample.wanted
    differ = _in_other_files(store, sample, disk)
    for number, (place, offsets) in enumerate(wanted.queues.items()):
        is_turn = number == turn % len(wanted.queues)
        _read_queue(store, sample, place, offsets, None if is_turn else differ, missing, changed)
    for number, offset in enumerate(wanted.records):
        if offset in differ or number % TURNS == turn % TURNS:
            found = store.read_record(offset)
            if found != wanted.records[offset]:
                (missing if found is None else changed).add(offset)
    places = _places_of(store, sample, disk)
    for number, (key, offsets) in enumerate(wanted.keys.items()):
        if places[number] != offsets or number % TURNS == turn % TURNS or not hit.isdisjoint(offsets):
            records = store.query(*key, max_count=QUERY_MAX).records
            _compare(wanted.records, offsets, records, missing, changed)
    return missing, changed


def _in_other_files(store: MessageStore, sample: Sample, disk: MemoryDisk) -> set[int]:
    """Return the records in those files of the log that are not what they were, byte for byte."""
    size, directory = sample.settings.mapped_file_size_commit_log, store._log.chain.directory
    offsets = list(sample.wanted.records)
    starts = sorted({offset - offset % size for offset in offsets})
    end = offsets[-1] + len(sample.wanted.records[offsets[-1]])
    if store._log.chain.starts != starts or min(store._log.committed_offset, store.confirm_offset) < end:
        return set(offsets)
    paths = {start: directory / layout.offset_name(start) for start in starts}
    others = {
        start for start, path in paths.items() if disk._files[path].data != sample.disk._files[path].data
    }
    return {offset for offset in offsets if offset - offset % size in others}


def _read_queue(
    store: MessageStore,
    sample: Sample,
    place: Queue,
    offsets: list[int],
    differ: set[int] | None,
    missing: set[int],
    changed: set[int],
) -> None:
    """Read a queue whole; once it gave all its records only those that ``differ``, unless that is None."""
    begin, end = store.min_queue_offset(*place), store.max_queue_offset(*place)
    queue = store._queues.find(*place)
    state: tuple[object, ...] = ()
    if queue is not None:
        entries = queue.read(begin, end - begin)
        state = (id(sample), place, begin, end, tuple(queue.chain.starts), queue._tail_start, entries)
    if differ is not None and state in _sound_queues:
        numbers = [number for number, offset in enumerate(offsets) if offset in differ]
        if not numbers:
            return
        begin, end = max(numbers[0] - BESIDE, 0), min(numbers[-1] + 1 + BESIDE, len(offsets))
        offsets = offsets[begin:end]
    known = len(missing) + len(changed)
    _compare(sample.wanted.records, offsets, _records(store, place, begin, end), missing, changed)
    if state and not known and not missing and not changed:
        _sound_queues.add(state)


def _records(store: MessageStore, place: Queue, offset: int, end: int) -> list[bytes]:
    records: list[bytes] = []
    while offset < end:
        result = store.get(*place, offset, end - offset)
        assert result.next_offset > offset, "a reader does not get on"
        records += result.records
        offset = result.next_offset
    return records


def _places_of(store: MessageStore, sample: Sample, disk: MemoryDisk) -> Sequence[list[int]]:
    """Return the places that the index finds for each key; a file with the same bytes is asked once."""
    store.query("none", "none")  # it catches up
    assert store._index is not None
    states = tuple(_state_of(file, disk) for file in store._index._index)
    for state, file in zip(states, store._index._index, strict=True):
        if state not in _found_in:
            _found_in[state] = [
                run(file.find(key_hash, begin_time=0, end_time=TIME_MAX, max_count=QUERY_MAX))
                for key_hash in sample.wanted.key_hashes
            ]
        _found_in.move_to_end(state)
    joined = _joined(states)
    while len(_found_in) > STATES_MAX:
        _found_in.popitem(last=False)
    return joined


def _state_of(file: IndexFile, disk: MemoryDisk) -> bytes:
    """Return all that finding looks at: a digest of what is in memory and in the file."""
    numbers = (file._written, file.header, file._image is None, len(file._tail))
    state = blake2b(repr(numbers).encode())
    for part in (b"" if file._image is None else file._image.data, file._tail, disk._files[file.path].data):
        state.update(part)
    return state.digest()


@lru_cache(maxsize=16)
def _joined(states: tuple[bytes, ...]) -> Sequence[list[int]]:
    """Return what an index of such files finds for each key: less than ``QUERY_MAX`` places, in any order."""
    found = zip(*(_found_in[state] for state in states), strict=True)
    return [sorted(chain(*places))[:QUERY_MAX] for places in found]


def _compare(
    all_records: dict[int, bytes],
    offsets: list[int],
    found: list[bytes],
    missing: set[int],
    changed: set[int],
) -> None:
    wanted = [all_records[offset] for offset in offsets]
    if found == wanted:
        return
    there = set(found)
    missing.update(offset for offset, data in zip(offsets, wanted, strict=True) if data not in there)
    known = set(wanted)
    for data in found:
        if data not in known:
            changed.add(int.from_bytes(data[28:36], "big"))
    if len(there) < len(found):
        changed.add(TWICE)
