"""What the campaign with pairs of brokers would find if it were there."""

from pathlib import Path

import pytest
from tests.campaigns.sets.replicas_comparison import first_difference, numbers_in, queues_of, rebuilt_queues

from cometmq.format import layout
from cometmq.store import Message, MessageStore, StoreSettings

FILE = 4096
SETTINGS = StoreSettings(
    mapped_file_size_commit_log=FILE,
    mapped_file_size_consume_queue=2000,
    max_hash_slot_num=10,
    max_index_num=100,
)
COUNT = 60


def filled(root: Path) -> int:
    """Store messages; return the end of the log."""
    with MessageStore.open(root, SETTINGS) as store:
        for number in range(COUNT):
            store.append_messages([Message("T", b"number=%016x;" % number + b"x" * number)], number % 3)
        return store.written_offset


@pytest.fixture
def logs(tmp_path: Path) -> tuple[Path, Path]:
    """Two folders with the same log of three files, the last of which ends early."""
    for name in ("a", "b"):
        folder = layout.commitlog_dir(tmp_path / name)
        folder.mkdir(parents=True)
        for number in range(3):
            (folder / layout.offset_name(number * FILE)).write_bytes(bytes([number + 1]) * FILE)
    return tmp_path / "a", tmp_path / "b"


def test_equal_logs_do_not_differ_before_their_end(logs: tuple[Path, Path]) -> None:
    end = 2 * FILE + 100
    path = layout.commitlog_path(logs[1], 2 * FILE)
    path.write_bytes(path.read_bytes()[:100] + bytes(FILE - 100))
    assert first_difference(*logs, end) is None
    assert first_difference(*logs, end + 1) == end


@pytest.mark.parametrize("at", [0, FILE - 1, FILE, 2 * FILE + 77])
def test_one_other_byte_is_found(logs: tuple[Path, Path], at: int) -> None:
    path = layout.commitlog_path(logs[0], at - at % FILE)
    data = bytearray(path.read_bytes())
    data[at % FILE] ^= 1
    path.write_bytes(data)
    assert first_difference(*logs, 3 * FILE) == at


def test_a_log_that_ends_earlier_differs_there(logs: tuple[Path, Path]) -> None:
    layout.commitlog_path(logs[1], FILE).unlink()
    assert first_difference(*logs, 3 * FILE) == FILE


def test_messages_are_found_by_the_numbers_in_their_bodies(tmp_path: Path) -> None:
    end = filled(tmp_path)
    assert end > 2 * FILE
    assert numbers_in(tmp_path, end) == set(range(COUNT))
    assert numbers_in(tmp_path, end - 1) == set(range(COUNT))  # the last byte is behind the number
    assert numbers_in(tmp_path, end // 2) < set(range(COUNT))


def test_rebuilt_queues_are_those_of_the_store_unless_an_entry_differs(tmp_path: Path) -> None:
    filled(tmp_path / "store")
    found = queues_of(tmp_path / "store")
    assert len(found) == 3
    assert rebuilt_queues(tmp_path / "store", SETTINGS, tmp_path / "rebuilt") == found
    path = layout.consume_queue_path(tmp_path / "store", "T", 1, 0)
    path.write_bytes(b"?" + path.read_bytes()[1:])
    assert queues_of(tmp_path / "store") != found
