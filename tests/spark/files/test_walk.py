"""However a file is cut into pieces, every true record is read exactly once."""

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cometmq.format import layout
from cometmq.format.record import Record, RecordHead, encode, encode_blank
from cometmq.format.scan import check
from cometmq.kernels import plain
from cometmq.spark.files import log_end
from cometmq.spark.files.log_end import BLANK_SIZE_MAX
from cometmq.spark.files.splits import FilePiece, LogFile, log_files, splits
from cometmq.spark.files.walk import DamagedPart, scans

BASE_OFFSET = 4096
HOST = bytes([127, 0, 0, 1, 0, 0, 42, 159])


def record(offset: int, body: bytes, topic: str = "T") -> bytes:
    return encode(Record(topic, body, b"TAGS\x01a\x02", 3, 7, offset, 0, 0, 1, HOST, 2, HOST))


def whole_records(data: bytes, base_offset: int) -> list[int]:
    """Read a file as one who sees all of it: where its records are, up to the BLANK that fills it."""
    blanks = [at for at in range(len(data)) if data[at : at + 8] == encode_blank(len(data) - at)]
    end = min(blanks, default=len(data))
    positions = []
    at = 0
    while at < end:
        found = check(data, at, end, base_offset=base_offset)
        if isinstance(found, RecordHead):
            positions.append(at)
            at += found.size
        else:
            at += 1
    return positions


class Glimpse:
    """The bytes of a file, of which only those are valid that were read last."""

    def __init__(self, file: LogFile) -> None:
        self._whole = file.path.read_bytes()
        self._last = bytearray()
        self.written = len(self._whole)

    def read(self, begin: int, end: int) -> memoryview:
        self._last[:] = bytes(len(self._last))
        self._last = bytearray(self._whole[begin:end])
        return memoryview(self._last).toreadonly()

    def peek(self, begin: int, end: int) -> bytes:
        return self._whole[begin:end]


def read(file: LogFile, pieces: list[FilePiece], bytes_max: int = 1 << 20) -> list[int]:
    data = Glimpse(file)
    passed_over: list[DamagedPart] = []
    return [
        offset - file.base_offset
        for piece in pieces
        for found in scans(data, piece, plain, on_damage=passed_over.append, bytes_max=bytes_max)
        for offset in found.scan.physical_offset.tolist()
    ]


def damages(file: LogFile, *, more_follows: bool) -> list[DamagedPart]:
    found: list[DamagedPart] = []
    data = Glimpse(file)
    for _ in scans(data, FilePiece(file, 0, file.written, more_follows), plain, on_damage=found.append):
        pass
    return found


def made(folder: Path, data: bytes) -> LogFile:
    path = folder / layout.offset_name(BASE_OFFSET)
    path.write_bytes(data)
    (file,) = log_files(path)
    return file


@st.composite
def log_bytes(draw: st.DrawFn) -> bytes:
    """Build a file of good, torn and foreign records, garbage and holes, maybe a BLANK and old bytes."""
    data = b""
    for kind in draw(st.lists(st.sampled_from("rrrrtgzco"), max_size=12)):
        body = draw(st.binary(max_size=200))
        whole = record(BASE_OFFSET + len(data), body)
        if kind == "r":
            data += whole
        elif kind == "t":
            # torn in head or body: behind it, or without a body, no checksum tells a record from the next
            # one's first bytes
            torn = record(BASE_OFFSET + len(data), body or b"torn")
            data += torn[: draw(st.integers(1, len(torn) - 19))]
        elif kind == "c":
            data += record(draw(st.integers(0, 1 << 40)), body)  # a copy of a record that lay elsewhere
        elif kind == "o":
            data += whole[:-20] + bytes(20)  # a page that did not reach the disk
        else:
            data += body if kind == "g" else bytes(len(body))
    if draw(st.booleans()):
        remains = record(BASE_OFFSET + len(data) + 8, b"given up by a recovery")
        data += encode_blank(8 + len(remains)) + remains
    return data


@settings(max_examples=150, deadline=None)
@given(
    log_bytes(),
    st.lists(st.integers(0, 3000), max_size=63),
    st.sampled_from([64, 300, 1 << 20]),
    st.sampled_from([200, BLANK_SIZE_MAX]),  # there is none before the last 200 bytes
)
def test_any_pieces_give_the_records_of_the_whole(
    data: bytes, cuts: list[int], bytes_max: int, blank_size_max: int
) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr(log_end, "BLANK_SIZE_MAX", blank_size_max)
        file = made(Path(folder), data)
        bounds = sorted({0, file.written, *(cut for cut in cuts if cut < file.written)})
        pieces = [FilePiece(file, start, end, False) for start, end in pairwise(bounds)]
        assert read(file, pieces, bytes_max) == whole_records(data, BASE_OFFSET)


@pytest.mark.parametrize("store", ["store-clean", "store-killed", "store-killed-recovered"])
def test_any_number_of_splits_gives_every_record_of_a_real_store_once(
    golden: Mapping[str, Path], store: str
) -> None:
    files = log_files(golden[store])
    expected = [
        (file.base_offset, position)
        for file in files
        for position in whole_records(file.path.read_bytes(), file.base_offset)
    ]
    assert len(expected) > 500
    total = sum(file.written for file in files)
    for count in (1, 2, 3, 7, 16, 33, 64):
        made_splits = splits(files, -(-total // count))
        assert len(made_splits) == count
        found = [
            (piece.file.base_offset, position)
            for split in made_splits
            for piece in split
            for position in read(piece.file, [piece])
        ]
        assert found == expected


def test_a_record_larger_than_a_window_is_read_alone(tmp_path: Path) -> None:
    first = record(BASE_OFFSET, bytes(100))
    file = made(tmp_path, first + record(BASE_OFFSET + len(first), bytes(5000)))
    pieces = [FilePiece(file, 0, file.written, False)]
    assert read(file, pieces, bytes_max=1000) == [0, len(first)]


def test_scans_are_as_small_as_asked(tmp_path: Path) -> None:
    data = b""
    for _ in range(20):
        data += record(BASE_OFFSET + len(data), b"x")
    file = made(tmp_path, data)
    damaged: list[DamagedPart] = []
    found = scans(
        Glimpse(file),
        FilePiece(file, 0, file.written, False),
        plain,
        on_damage=damaged.append,
        bytes_max=8 * len(data) // 20 + 1,
    )
    assert [part.scan.count for part in found] == [8, 8, 4]
    assert damaged == []


def test_damage_before_true_records_is_told_with_its_extent(tmp_path: Path) -> None:
    first = record(BASE_OFFSET, b"first")
    file = made(tmp_path, first + bytes(50) + record(BASE_OFFSET + len(first) + 50, b"second"))
    (damage,) = damages(file, more_follows=False)
    assert (damage.start, damage.end) == (len(first), len(first) + 50)
    assert f"at position {len(first)} (physical offset {BASE_OFFSET + len(first)}) 50 bytes" in str(damage)


def test_a_torn_end_is_damage_only_where_more_follows(tmp_path: Path) -> None:
    first = record(BASE_OFFSET, b"first")
    file = made(tmp_path, first + record(BASE_OFFSET + len(first), b"torn")[:-1])
    assert damages(file, more_follows=False) == []
    (damage,) = damages(file, more_follows=True)
    assert (damage.start, damage.end) == (len(first), file.written)


def test_damage_is_told_by_the_piece_in_which_it_begins(tmp_path: Path) -> None:
    first = record(BASE_OFFSET, b"first")
    file = made(tmp_path, first + bytes(500) + record(BASE_OFFSET + len(first) + 500, b"second"))
    found: list[DamagedPart] = []
    data = Glimpse(file)
    for start, end in ((0, 200), (200, 400), (400, file.written)):
        for _ in scans(data, FilePiece(file, start, end, False), plain, on_damage=found.append):
            pass
    assert [(damage.start, damage.end) for damage in found] == [(len(first), len(first) + 500)]
