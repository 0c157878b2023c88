"""Bytes of the log in memory: files and their bounds, and single records."""

import errno
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.store.conftest import ROOT, OpenStore, new_message

from cometmq.format import layout
from cometmq.format.record import read_head
from cometmq.io.files import File
from cometmq.io.open_files import OpenFiles
from cometmq.store.files.spread import LogSpread
from cometmq.store.log.commit_log import CommitLog
from cometmq.store.read.log_bytes import NOWHERE, bytes_at, record_at, resident_record
from cometmq.store.reading import run
from cometmq.testing.memory_disk import MemoryDisk


def test_a_file_is_given_up_to_where_it_can_be_read(open_store: OpenStore) -> None:
    store = open_store()
    first = store.append([new_message()])[0].physical_offset
    found = bytes_at(store._log, first)
    assert found is not None
    mapped, data = found
    assert (data.begin, data.end) == (0, store._log.committed_offset)
    assert data.data[: data.end].tobytes() == bytes(mapped.view[: data.end])
    assert len(data.resident) == len(mapped.resident)
    assert NOWHERE.begin == NOWHERE.end == 0


def test_there_is_nothing_where_nothing_is_written_or_nothing_is_known(
    open_store: OpenStore, disk: MemoryDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store()
    store.append([new_message()])
    for offset in (store._log.committed_offset, -1, 1 << 50):
        assert bytes_at(store._log, offset) is None
    disk.cold = True
    assert bytes_at(store._log, 0) is None
    disk.cold = False

    def refuse(_: object, path: Path, *, writable: bool) -> File:
        raise OSError(errno.EIO, f"{path} {writable}")

    store._parts.files.close()
    monkeypatch.setattr(type(disk), "open", refuse)
    assert bytes_at(store._log, 0) is None


@settings(deadline=None)
@given(
    sizes=st.lists(st.sampled_from((1, 10, 10, 3_000)), max_size=30),
    flips=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 7)), max_size=2),
    places=st.lists(st.integers(0, 10_000), max_size=5),
)
def test_a_record_is_read_by_its_place_as_the_log_reads_it(
    sizes: list[int], flips: list[tuple[float, int]], places: list[int]
) -> None:
    disk = MemoryDisk()
    log = CommitLog(OpenFiles(disk, writable=True), LogSpread((layout.commitlog_dir(ROOT),)), 16_384)
    begins = [
        log.append([new_message(body=bytes(size))], [number], 1)[0].physical_offset
        for number, size in enumerate(sizes)
    ]
    for place in (*begins, *places):
        found = resident_record(log, place)
        record = None if found is None else found[0]
        assert record == run(log.record_at(place)) == run(record_at(log, place))
        assert found is None or found[1] == read_head(found[0], 0)
    assert None not in [resident_record(log, place) for place in begins]
    for where, bit in flips if log.written_offset else ():
        position = int(where * log.written_offset)
        start = log.chain.start_of(position)
        assert start is not None
        file = log.chain.file(start)
        file.write(position - start, bytes((file.read(position - start, 1)[0] ^ 1 << bit,)))
    for place in begins:
        record = run(log.record_at(place))
        assert (resident_record(log, place) or (None,))[0] in (None, record)
        assert run(record_at(log, place)) == record
    disk.cold = True
    assert not any(resident_record(log, place) for place in begins)
