"""What is seen of a piece of a log, however it is read."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from cometmq.format import layout
from cometmq.format.checksum import Crc
from cometmq.format.record import Record, encode, encode_blank
from cometmq.spark.files.splits import FilePiece, log_files
from cometmq.spark.jobs import piece_scan as module
from cometmq.spark.jobs.piece_scan import Blank, PieceScan, PieceSeen, Segment, why_not
from cometmq.store.log.torn import SECTOR_SIZE
from cometmq.store.log.vouched import ALL

HOST = bytes([127, 0, 0, 1, 0, 0, 42, 159])


def record(offset: int, time: int, text: int = 10) -> bytes:
    properties = b"KEYS\x01" + b"k" * text + b"\x02"
    return encode(Record("T", b"body", properties, 0, 0, offset, 0, 0, time, HOST, time, HOST))


def seen(data: bytes, folder: Path, vouched_time: int = ALL) -> PieceSeen:
    path = folder / layout.offset_name(0)
    path.write_bytes(data)
    (file,) = log_files(path)
    scan = PieceScan(FilePiece(file, 0, file.size, more_follows=False), Crc.BODY, vouched_time)
    for _ in scan.chunks():
        pass
    return scan.seen(with_data_end=True)


@pytest.mark.parametrize("stretch", [300, 1 << 20])
def test_runs_of_records_are_noted_with_what_lies_between_and_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stretch: int
) -> None:
    monkeypatch.setattr(module, "STRETCH_BYTES", stretch)
    first = record(0, 1) + record(len(record(0, 1)), 2)
    second = record(len(first) + 20, 3)
    data = first + b"x" * 20 + second
    blank = encode_blank(40).ljust(40, b"\0")
    assert seen(data + blank, tmp_path) == PieceSeen(
        begin=0,
        end=len(data) + 40,
        segments=[Segment(0, len(first), 2, 1, 2), Segment(len(first) + 20, len(data), 1, 3, 3)],
        blank=Blank(len(data), 40),
        data_end=len(data) + 8,
    )


@pytest.mark.parametrize("stretch", [2_000, 2_500, 3_000, 1 << 20])
def test_a_sector_that_was_not_written_is_found_wherever_reading_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stretch: int
) -> None:
    monkeypatch.setattr(module, "STRETCH_BYTES", stretch)
    data = bytearray()
    ends = []
    for number in range(6):
        data += record(len(data), 10 + number, text=1_700)
        ends.append(len(data))
    sector = ends[4] // SECTOR_SIZE * SECTOR_SIZE - SECTOR_SIZE
    assert ends[3] + 200 < sector
    data[sector : sector + SECTOR_SIZE] = bytes(SECTOR_SIZE)
    sound = [Segment(0, ends[3], 4, 10, 13), Segment(ends[4], ends[5], 1, 15, 15)]
    assert seen(bytes(data), tmp_path, vouched_time=12).segments == sound


def test_why_there_is_no_record_is_told_by_few_bytes(golden: Mapping[str, Path]) -> None:
    file, *_ = log_files(golden["store-clean"])
    assert why_not(file.path, file.size, 0, 0, Crc.BODY) == ""
    assert "magic" in why_not(file.path, file.size, 0, 1, Crc.BODY)
