"""A store at a glance."""

from collections.abc import Mapping
from pathlib import Path

from tests.store.conftest import ROOT, SMALL, OpenStore, new_message

from cometmq.format import layout
from cometmq.store.directory import StoreDirectory
from cometmq.store.inspect import Summary, summarize
from cometmq.testing.memory_disk import MemoryDisk


def summary_of(disk: MemoryDisk) -> Summary:
    with StoreDirectory(ROOT, SMALL, disk) as store:
        return summarize(store)


def test_a_real_brokers_store_at_a_glance(golden: Mapping[str, Path]) -> None:
    with StoreDirectory(golden["store-clean"]) as store:
        summary = summarize(store)
    assert (summary.log_files, summary.log_begin, summary.log_end) == (2, 0, 1_294_834)
    assert (summary.first_time, summary.last_time) == (1_795_245_155_796, 1_795_245_182_319)
    assert ("GoldenA", 4, 944) in summary.topics
    assert [line.entries for line in summary.index_files] == [3_999, 3_999, 277]
    assert summary.checkpoint is not None
    assert "topics.json" in summary.tables
    assert (summary.was_closed, summary.holder, summary.findings) == (True, None, [])


def test_an_open_store_names_its_process(open_store: OpenStore, disk: MemoryDisk) -> None:
    store = open_store()
    end = [store.append([new_message(body=bytes(300))])[0] for _ in range(60)][-1]
    summary = summary_of(disk)
    assert summary.holder is not None
    assert (summary.was_closed, summary.log_end) == (False, end.physical_offset + end.size)
    assert (summary.log_files, summary.index_files) == (len(disk.names(layout.commitlog_dir(ROOT))), [])


def test_an_empty_store_has_no_times(disk: MemoryDisk) -> None:
    disk.make_directory(layout.commitlog_dir(ROOT))
    summary = summary_of(disk)
    assert (summary.log_files, summary.log_end, summary.first_time, summary.last_time) == (0, 0, 0, 0)


def test_the_end_is_found_before_damage_at_the_end(open_store: OpenStore, disk: MemoryDisk) -> None:
    store = open_store()
    first, second = (store.append([new_message(body=bytes(3_000))])[0] for _ in range(2))
    store.close()
    disk.open(layout.commitlog_path(ROOT, 0), writable=True).write(second.physical_offset + 200, b"\xff")
    assert summary_of(disk).log_end == first.physical_offset + first.size
