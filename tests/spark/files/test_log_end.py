import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.counted import CountedFiles

from cometmq.format import layout
from cometmq.format.record import encode_blank
from cometmq.spark.files import log_end
from cometmq.spark.files.log_end import LogEnd
from cometmq.spark.files.remote import RemotePath, Window, opened, path_of
from cometmq.spark.files.splits import log_files

MIB = 1 << 20


def test_a_full_file_ends_at_its_blank(golden: Mapping[str, Path]) -> None:
    first, second = log_files(golden["store-clean"])
    end = LogEnd(opened(first.path, first.size, 0), first).position
    assert first.path.read_bytes()[end : end + 8] == encode_blank(first.size - end)
    assert LogEnd(opened(second.path, second.size, 0), second).position <= second.size == MIB


def test_what_was_never_written_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / layout.offset_name(0)
    with path.open("wb") as made:
        os.truncate(made.fileno(), 64 * MIB)
        os.pwrite(made.fileno(), b"x" * 5000, MIB)
    (file,) = log_files(path)
    unknown = file._replace(written=file.size)  # as of a file with others behind it
    for one in (file, unknown):
        end = LogEnd(opened(path, one.size, 0), one)
        assert MIB + 5000 <= end.position <= 2 * MIB
        assert MIB + len(end.read(MIB, 64 * MIB)) == len(end.read(0, 3 * MIB)) == end.position


@pytest.fixture
def window(monkeypatch: pytest.MonkeyPatch) -> Window:
    """Provide a file of 100,000 bytes whose last 1,000 are a BLANK; it is looked for in the last 5,000."""
    monkeypatch.setattr(log_end, "BLANK_SIZE_MAX", 5_000)
    CountedFiles.start({f"lake/{layout.offset_name(0)}": b"x" * 99_000 + encode_blank(1_000) + b"x" * 992})
    path = path_of(f"counted://lake/{layout.offset_name(0)}")
    assert isinstance(path, RemotePath)
    return Window(path, 100_000, 100_000, block=4_000)


def test_the_end_is_looked_up_by_who_comes_near_it(window: Window) -> None:
    (file,) = log_files(path_of("counted://lake"))
    end = LogEnd(window, file)
    assert len(end.read(0, 4_000)) == 4_000 and window.fetched == 4_000
    assert len(end.read(80_000, 95_000)) == 15_000 and window.fetched < 4_000 + 21_000
    assert end.read(94_000, 99_500) == b"x" * 5_000
    assert window.fetched < 4_000 + 23_000  # what was there is not fetched again
    assert end.position == 99_000


def test_who_begins_behind_the_end_finds_nothing(window: Window) -> None:
    (file,) = log_files(path_of("counted://lake"))
    assert not LogEnd(window, file).read(99_500, 100_000)
