from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
from tests.store.conftest import ROOT, SMALL, OpenStore, new_message

from cometmq.errors import SettingsError
from cometmq.format import layout
from cometmq.format.index import file_size
from cometmq.io.files import Disk
from cometmq.store import StoreSettings
from cometmq.store.files.sizes import infer_settings
from cometmq.testing.memory_disk import MemoryDisk


@pytest.mark.parametrize("name", ["store-clean", "store-killed"])
def test_the_files_of_a_real_broker_tell_its_sizes(golden: Mapping[str, Path], name: str) -> None:
    settings = infer_settings(Disk(), golden[name])
    assert settings.mapped_file_size_commit_log == 1_048_576
    assert settings.mapped_file_size_consume_queue == 6_000
    assert (settings.max_hash_slot_num, settings.max_index_num) == (1_000, 4_000)


def test_the_files_of_extended_queues_tell_their_size(golden: Mapping[str, Path]) -> None:
    settings = infer_settings(Disk(), golden["store-extended"])
    assert settings.mapped_file_size_consume_queue_ext == 500
    assert settings.mapped_file_size_consume_queue == 6_000


def test_where_there_are_no_files_the_defaults_hold(disk: MemoryDisk) -> None:
    assert infer_settings(disk, ROOT) == StoreSettings()


def test_the_most_frequent_length_counts(disk: MemoryDisk) -> None:
    for number, size in enumerate([8_192, 100, 8_192, 0, 4_096]):
        disk.put(layout.commitlog_path(ROOT, number * 8_192), bytes(size))
    disk.put(layout.commitlog_dir(ROOT) / "notes.txt", bytes(9_000))
    assert infer_settings(disk, ROOT).mapped_file_size_commit_log == 8_192


def test_files_where_directories_should_be_are_left_to_the_checks(tmp_path: Path) -> None:
    queue = layout.consume_queues_dir(tmp_path) / "T" / "0"
    queue.mkdir(parents=True)
    (queue / layout.offset_name(0)).write_bytes(bytes(200))
    for stray in (queue.with_name("1"), queue.with_name("notes.txt"), queue.parent.with_name("U")):
        stray.write_text("x")
    assert infer_settings(Disk(), tmp_path).mapped_file_size_consume_queue == 200


def test_index_files_of_another_proportion_ask_for_the_settings(
    disk: MemoryDisk, open_store: OpenStore
) -> None:
    sizes = msgspec.structs.replace(SMALL, max_hash_slot_num=9, max_index_num=15)
    assert (file_size(9, 15) - 40) % 84 == 0, "as long as one of 4 slots and 16 entries"
    store = open_store(sizes)
    store.append([new_message(keys="a b c")])
    store.close()
    with pytest.raises(SettingsError, match="--config"):
        infer_settings(disk, ROOT)


def test_index_files_that_nothing_was_written_to_tell_their_sizes_by_their_length(disk: MemoryDisk) -> None:
    disk.put(layout.index_path(ROOT, 1_700_000_000_000), bytes(file_size(10, 40)))
    assert infer_settings(disk, ROOT).max_index_num == 40
    disk.put(layout.index_path(ROOT, 1_700_000_000_000), bytes(1_000))
    with pytest.raises(SettingsError, match="files of 1000 bytes"):
        infer_settings(disk, ROOT)
