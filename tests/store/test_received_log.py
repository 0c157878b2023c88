"""The log of a slave: appended by whole records, equal to the master's, and readable like it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.broker.conftest import SMALL
from tests.kit.received_logs import FILE, ROOT, log_of, store_on
from tests.store.conftest import new_message

from cometmq.errors import LogDiverged, StoreNotWritable
from cometmq.format import layout, record
from cometmq.io.clock import ManualClock
from cometmq.io.files import Disk
from cometmq.store.files.sizes import infer_settings
from cometmq.store.reading import run
from cometmq.store.settings import FlushDiskType, StoreSettings
from cometmq.store.store import MessageStore
from cometmq.store.upkeep.dispatch import Arrival
from cometmq.testing.memory_disk import MemoryDisk


def fill(store: MessageStore, count: int = 60) -> None:
    for number in range(count):
        store.append([new_message("T", number % 3, b"%d" % number * 100, tags="A", keys=f"k{number}")])


def bodies_of(store: MessageStore) -> list[bytes]:
    found = []
    for topic, queue_id in sorted(store.queues()):
        offset = store.min_queue_offset(topic, queue_id)
        while (got := run(store.readings.get(topic, queue_id, offset))).records:
            found += [record.decode(data).body for data in got.records]
            offset = got.next_offset
    return found


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes=st.lists(st.integers(1, 5000), min_size=1, max_size=20))
def test_however_the_masters_log_is_cut_the_slaves_is_the_same(sizes: list[int]) -> None:
    disk, copy = MemoryDisk(), MemoryDisk()
    with store_on(disk) as master, store_on(copy) as slave:
        fill(master)
        turn = 0
        for offset, data in log_of(master):
            at = 0
            while at < len(data):
                size = sizes[turn % len(sizes)]
                slave.received.append(offset + at, data[at : at + size])
                at, turn = at + size, turn + 1
                assert slave.written_offset <= offset + at
        assert slave.written_offset == slave.dispatched_offset == master.written_offset
        assert slave.received.record_count == 60
        assert log_of(slave) == log_of(master)
        assert bodies_of(slave) == bodies_of(master)
        assert run(slave.readings.query("T", "k7")).records == run(master.readings.query("T", "k7")).records


def test_the_beginning_of_a_record_waits_in_memory_and_comes_again_after_a_loss() -> None:
    with store_on(MemoryDisk()) as master, store_on(MemoryDisk()) as slave:
        fill(master, 2)
        [(offset, data)] = log_of(master)
        half = len(data) // 2 + 10
        slave.received.append(offset, data[:half])
        end = slave.received.end_offset
        assert 0 < end < half and slave.written_offset == end
        slave.received.forget_rest()
        slave.received.append(end, data[end:])
        assert log_of(slave) == log_of(master)


def test_a_slave_stores_no_messages_and_a_restart_as_master_goes_on_behind_the_last() -> None:
    disk = MemoryDisk()
    with store_on(MemoryDisk()) as master, store_on(disk) as slave:
        fill(master)
        slave.be_slave("it is a slave")
        with pytest.raises(StoreNotWritable, match="it is a slave"):
            slave.append([new_message()])
        for offset, data in log_of(master):
            slave.received.append(offset, data)
        known = bodies_of(master)
    with store_on(disk) as promoted:
        assert promoted.recovered.clean and bodies_of(promoted) == known
        [appended] = promoted.append([new_message("T", 0, b"later")])
        assert appended.queue_offset == 20


def test_an_empty_slave_begins_at_any_file_of_its_master() -> None:
    disk = MemoryDisk()
    with store_on(MemoryDisk()) as master:
        fill(master)
        with store_on(disk) as slave:
            for offset, data in log_of(master, FILE):
                slave.received.append(offset, data)
            assert slave.min_offset == FILE
            first = slave.min_queue_offset("T", 0)
            assert first > 0 and slave.max_queue_offset("T", 0) == 20
            assert log_of(slave, FILE) == log_of(master, FILE)
            assert run(slave.readings.query("T", "k59")).records
            later = bodies_of(slave)
        with store_on(disk) as again:
            assert again.recovered.clean and bodies_of(again) == later
            assert again.min_queue_offset("T", 0) == first


def test_under_sync_flush_nothing_is_read_before_the_disk_has_it() -> None:
    with store_on(MemoryDisk()) as master:
        fill(master, 3)
        [(offset, data)] = log_of(master)
    calls: list[Any] = []
    own = StoreSettings(
        **SMALL | {"mapped_file_size_commit_log": FILE, "flush_disk_type": FlushDiskType.SYNC_FLUSH}
    )
    with MessageStore.open(
        ROOT, own, files=MemoryDisk(), clock=ManualClock(), run_soon=calls.append
    ) as slave:
        slave.received.append(offset, data)
        assert slave.written_offset == len(data) and slave.dispatched_offset == 0
        slave.wait_flushed().result(60)
        for call in calls:
            call()
        assert slave.dispatched_offset == len(data) and len(bodies_of(slave)) == 3


def test_who_waits_for_messages_hears_of_them() -> None:
    heard: list[Arrival] = []
    with store_on(MemoryDisk()) as master, store_on(MemoryDisk()) as slave:
        fill(master, 2)
        slave.on_arrival(heard.extend)
        for offset, data in log_of(master):
            slave.received.append(offset, data)
    assert [(one.topic, one.queue_id, one.next_offset) for one in heard] == [("T", 0, 1), ("T", 1, 1)]
    assert {one.tags_code for one in heard} == {65}


def test_what_does_not_continue_the_log_is_refused() -> None:
    with store_on(MemoryDisk()) as master, store_on(MemoryDisk()) as slave:
        fill(master, 3)
        [(offset, data)] = log_of(master)
        slave.received.append(offset, data)
        end = len(data)
        with pytest.raises(LogDiverged, match=f"sends on from offset {end + 1}, but this log ends at {end}"):
            slave.received.append(end + 1, b"x")
        with pytest.raises(LogDiverged, match=f"has at offset {end} does not continue this log"):
            slave.received.append(end, data[:200])  # a record of another offset
        slave.received.forget_rest()
        with pytest.raises(LogDiverged, match="do not fit into a file of 16384 bytes: mapped"):
            slave.received.append(end, bytes(FILE))
        assert slave.written_offset == end and bodies_of(slave) == bodies_of(master)


def test_a_master_with_files_of_another_length_is_found_out() -> None:
    with (
        store_on(MemoryDisk(), mapped_file_size_commit_log=FILE // 2) as master,
        store_on(MemoryDisk()) as slave,
    ):
        fill(master)
        [first, *_] = log_of(master)
        with pytest.raises(LogDiverged, match=r"a blank of .* before the end of its file"):
            slave.received.append(*first)
        with pytest.raises(LogDiverged, match="which is no multiple of 16384: mappedFileSizeCommitLog"):
            slave.received.append(FILE // 2, b"x")


def test_what_a_java_master_sends_is_in_its_light_queues_at_once(golden: Mapping[str, Path]) -> None:
    root, disk, light = golden["store-light"], MemoryDisk(), "%LMQ%$LightParent$one"
    own = msgspec.structs.replace(infer_settings(Disk(), root), message_delay_level="1s 2s")
    with MessageStore.open(ROOT, own, files=disk, clock=ManualClock()) as slave:
        first, last = sorted(layout.commitlog_dir(root).iterdir())
        slave.received.append(0, first.read_bytes())
        slave.received.append(int(last.name), last.read_bytes().rstrip(b"\0"))
        assert slave.max_queue_offset(light, 0) == 108
        assert record.decode(run(slave.readings.get(light, 0, 107)).records[0]).body == b"c untagged"
    queues = [path for path in layout.consume_queues_dir(root).rglob("*") if path.is_file()]
    assert {path: disk.load(ROOT / path.relative_to(root)) for path in queues} == {
        path: path.read_bytes() for path in queues
    }
