"""Tasks that lie outside of a time range look at the ends of their parts alone."""

from collections.abc import Callable

import pytest
from tests.counted import CountedFiles

from cometmq.format import layout
from cometmq.format.record import Record, encode, encode_blank
from cometmq.kernels import plain
from cometmq.spark.files.log_reader import LogReader
from cometmq.spark.files.record_choice import RecordChoice
from cometmq.spark.files.remote import opened, path_of
from cometmq.spark.files.splits import FilePiece, log_files, splits
from cometmq.spark.files.time_range import PROBE_BYTES, lies_outside
from cometmq.spark.options import ReadOptions

MIB = 1 << 20
HOST = bytes(8)
MINUTE = 60_000
HOUR = 60 * MINUTE
START = 1_700_000_000_000
BODY = bytes(60_000)
STORE = path_of("counted://lake/store")


def written(time_of: Callable[[int], int], files: int = 1, size: int = 16 * MIB) -> None:
    """Build a store whose record number n was stored at ``time_of(n)``."""
    made, number = dict[str, bytes | int](), 0
    for base in range(0, files * size, size):
        data = bytearray()
        while len(data) + len(BODY) + 200 < size:
            offset = base + len(data)
            data += encode(Record("T", BODY, b"", 0, number, offset, 0, 0, 1, HOST, time_of(number), HOST))
            number += 1
        data += encode_blank(size - len(data))
        made[f"lake/store/commitlog/{layout.offset_name(base)}"] = bytes(data.ljust(size, b"\0"))
    CountedFiles.start(made)


def pieces(size: int = 4 * MIB) -> list[FilePiece]:
    return [piece for split in splits(log_files(STORE), size) for piece in split]


def outside(piece: FilePiece, begin: int | None, end: int | None) -> bool:
    CountedFiles.start(CountedFiles.files)
    found = opened(piece.file.path, piece.file.size, piece.end)
    return lies_outside(found, piece, plain, RecordChoice(begin_time=begin, end_time=end))


def test_parts_before_and_behind_the_times_take_two_small_reads() -> None:
    written(lambda number: START + number * MINUTE)
    first, second, *_, last = pieces()
    between = (first, START + 9 * HOUR, START + 10 * HOUR)
    for piece, begin, end in ((first, START + 10 * HOUR, None), (second, None, START), between):
        assert outside(piece, begin, end)
        assert dict(CountedFiles.requests) == {"read": 2}
        assert CountedFiles.fetched.total() == 2 * PROBE_BYTES
    assert outside(last, START + 10 * HOUR, None)  # it has the BLANK, which must be found
    assert CountedFiles.requests.total() == 2
    assert outside(last, None, START)


def test_parts_within_the_times_are_read() -> None:
    written(lambda number: START + number * MINUTE)
    first, *others = pieces()
    far = START + 100 * HOUR
    for piece in (first, *others):
        for begin, end in ((None, None), (START, None), (START, far), (None, far)):
            assert not outside(piece, begin, end)
    assert not outside(first, START + 30 * MINUTE, None)  # it ends behind that
    assert not outside(first, START + 69 * MINUTE, None)  # it ends a minute before: clocks are set
    assert outside(first, START + 71 * MINUTE, None)


def test_a_part_over_whose_time_the_clock_was_set_is_read() -> None:
    written(lambda number: START + (number if number < 40 else number - 300) * MINUTE)
    first, second, *_ = pieces()
    assert not outside(first, None, START - HOUR)
    assert outside(second, START, None)


def test_a_part_without_a_record_at_its_ends_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    written(lambda number: START + number)
    monkeypatch.setattr("cometmq.spark.files.time_range.PROBE_BYTES", 40_000)
    assert not outside(pieces()[1], None, START - HOUR)


def test_a_reader_gives_the_same_and_reads_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cometmq.spark.files.log_end.BLANK_SIZE_MAX", MIB)
    written(lambda number: START + number * MINUTE, files=2)
    rows = [(offset, time) for offset, time in read(ReadOptions((STORE,)))]
    everything = CountedFiles.fetched.total()
    assert everything < 36 * MIB  # nothing is fetched behind a part, but its last record
    begin, end = START + 10 * MINUTE, START + 20 * MINUTE
    expected = [row for row in rows if begin <= row[1] < end]
    assert len(expected) == 10
    CountedFiles.start(CountedFiles.files)
    assert read(ReadOptions((STORE,), starting_time=begin, ending_time=end)) == expected
    assert CountedFiles.fetched.total() < everything // 3


def read(options: ReadOptions) -> list[tuple[int, int]]:
    reader = LogReader(options._replace(bytes_per_partition=4 * MIB), ("physical_offset", "store_time"))
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return [
        (row["physical_offset"], round(row["store_time"].timestamp() * 1000))
        for batch in batches
        for row in batch.to_pylist()
    ]
