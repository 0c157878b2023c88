"""The extension of a queue: its bytes, what a start finds, what a reader gets."""

import errno
import shutil
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.store.conftest import ROOT, SMALL, OpenStore, new_message

from cometmq.broker.state.consumer_filters import ConsumerFilters
from cometmq.broker.state.record_filters import SqlFilter
from cometmq.errors import StoreDamaged
from cometmq.filter.bloom import BloomFilter
from cometmq.format import layout, properties
from cometmq.format.consume_queue_ext import ADDRESS_MAX, OFFSET_MAX, ExtUnit, address_of, offset_of, pack
from cometmq.format.java.java_hash import tags_code
from cometmq.format.queue_entry import unpack_many
from cometmq.format.record import Record, decode, decode_many
from cometmq.io.clock import ManualClock
from cometmq.io.files import Disk
from cometmq.io.open_files import OpenFiles
from cometmq.store import MessageStore, NewMessage, StoreSettings
from cometmq.store.files.file_chain import FileChain
from cometmq.store.queue.consume_queue_ext import ConsumeQueueExt
from cometmq.store.queue.discarded import Discarded
from cometmq.store.queue.queues import Queues
from cometmq.store.read.get_result import GetStatus
from cometmq.store.recovery.rebuild import rebuild
from cometmq.store.tables import JsonTable
from cometmq.store.verify.whole import State, verify
from cometmq.testing.memory_disk import MemoryDisk

EXTENDED = replace(SMALL, enable_consume_queue_ext=True, mapped_file_size_consume_queue_ext=256)
EXT_DIRECTORY = layout.consume_queue_ext_dir(ROOT, "Orders", 0)
FILE_SIZE = 256


def make(disk: MemoryDisk) -> ConsumeQueueExt:
    return ConsumeQueueExt(FileChain(OpenFiles(disk, writable=True), EXT_DIRECTORY, FILE_SIZE, "size"))


def put_many(ext: ConsumeQueueExt, count: int, bitmap: bytes = b"", *, written: bool = True) -> list[int]:
    addresses = [ext.put(pack(number, 7, bitmap)) for number in range(count)]
    if written:
        ext.write_back()
    return [address for address in addresses if address is not None]


@pytest.fixture(scope="session")
def real(golden: Mapping[str, Path]) -> Path:
    """A store whose queues a real broker extended."""
    return golden["store-extended"]


REAL = StoreSettings(
    mapped_file_size_commit_log=1 << 20,
    mapped_file_size_consume_queue=6_000,
    max_hash_slot_num=1_000,
    max_index_num=4_000,
    enable_consume_queue_ext=True,
    mapped_file_size_consume_queue_ext=500,
)


def real_filters(real: Path) -> ConsumerFilters:
    table = JsonTable(Disk(), layout.config_path(real, "consumerFilter"))
    filters = ConsumerFilters(table, ManualClock(), BloomFilter(20, 32), keep_ms=1)
    filters.load()
    return filters


def unit_of(record: Record, filters: ConsumerFilters) -> ExtUnit:
    """Return the unit that a record gets by the filters that were known when it was stored."""
    known = [one for one in filters.of_topic(record.topic) if one.data.born_time < record.store_time]
    by_name = properties.decode(record.properties)
    bits = 0
    for one in known:
        bits |= one.bits * one.compiled.matches(by_name)
    bitmap = filters.bloom.pack(bits) if known else b""
    if len(known) == 2:
        assert filters.bitmap(new_message(record.topic)._replace(properties=record.properties)) == bitmap
    return ExtUnit(tags_code(by_name["TAGS"]), record.store_time, bitmap)


@pytest.mark.parametrize("queue_id", [0, 1])
def test_units_are_the_bytes_that_a_real_broker_wrote(real: Path, disk: MemoryDisk, queue_id: int) -> None:
    log = (layout.commitlog_dir(real) / layout.offset_name(0)).read_bytes()
    records = [
        record
        for record in decode_many(log[: log.rindex(b"\x02") + 1])
        if (record.topic, record.queue_id) == ("BySql", queue_id)
    ]
    filters = real_filters(real)
    units = [unit_of(record, filters) for record in records]
    assert {len(unit.bitmap) for unit in units} == {0, 14}
    ours = ConsumeQueueExt(FileChain(OpenFiles(disk, writable=True), ROOT, 500, "size"))
    addresses = [ours.put(pack(*unit)) for unit in units]
    ours.write_back()

    entries = layout.consume_queue_path(real, "BySql", queue_id, 0).read_bytes()
    assert addresses == [entry.tags_code for entry in unpack_many(entries) if entry.size]
    directory = layout.consume_queue_ext_dir(real, "BySql", queue_id)
    files = {path.name: path.read_bytes() for path in directory.iterdir()}
    assert {name: disk.load(ROOT / name) for name in disk.names(ROOT)} == files


def test_a_store_that_a_real_broker_extended_is_read_and_goes_on(real: Path, tmp_path: Path) -> None:
    root = shutil.copytree(real, tmp_path / "store")
    filters = real_filters(real)
    with MessageStore.open(root, REAL) as store:
        store.calculate_bitmaps(filters.bitmap)
        for queue_id in (0, 1):
            for known in filters.of_topic("BySql"):
                wanted = SqlFilter(known.compiled, known)
                plain = SqlFilter(known.compiled)
                assert read_all(store, queue_id, wanted) == read_all(store, queue_id, plain) != []
            for offset in range(store.max_queue_offset("BySql", queue_id)):
                (record,) = store.get("BySql", queue_id, offset, 1).records
                queue = store._queues.find("BySql", queue_id)
                assert queue is not None and queue.ext is not None
                head = decode(record)
                assert queue.ext.get(queue.entry(offset).tags_code) == unit_of(head, filters)
        end = store.max_queue_offset("BySql", 0)
        store.append([new_message("BySql", tags="x")])
        assert store.get("BySql", 0, end, tags_codes={tags_code("x")}).status is GetStatus.FOUND


def read_all(store: MessageStore, queue_id: int, wanted: SqlFilter) -> list[bytes]:
    found: list[bytes] = []
    offset = 0
    while offset < store.max_queue_offset("BySql", queue_id):
        result = store.get("BySql", queue_id, offset, 32, record_filter=wanted)
        found += result.records
        offset = result.next_offset
    return found


@given(st.lists(st.binary(max_size=240), max_size=30), st.integers(0, 30))
def test_what_is_put_is_got_from_memory_and_from_files(bitmaps: list[bytes], written: int) -> None:
    ext = make(MemoryDisk())
    addresses = []
    for number, bitmap in enumerate(bitmaps):
        address = ext.put(pack(number, 7, bitmap))
        addresses.append(address)
        assert (address is None) == (len(bitmap) > FILE_SIZE - 4 - 20)
        if address is not None:
            assert offset_of(address) // FILE_SIZE == (offset_of(address) + 19 + len(bitmap)) // FILE_SIZE
        if number == written:
            ext.write_back()
    for number, (address, bitmap) in enumerate(zip(addresses, bitmaps, strict=True)):
        assert address is None or ext.get(address) == ExtUnit(number, 7, bitmap)


def test_a_start_goes_on_behind_the_last_unit_that_an_entry_points_to(disk: MemoryDisk) -> None:
    ext = make(disk)
    addresses = put_many(ext, 30, b"bitmap")
    again = make(disk)
    again.recover(addresses[11])
    assert len(disk.names(EXT_DIRECTORY)) == 2
    assert again.end_offset == offset_of(addresses[11]) + 26
    assert again.get(addresses[11]) == ExtUnit(11, 7, b"bitmap")
    assert again.get(addresses[12]) is None
    assert again.put(pack(99, 8)) == addresses[12]
    again.recover(None)
    assert disk.names(EXT_DIRECTORY) == [] and again.end_offset == 0


def test_the_address_of_a_lost_unit_is_not_used_again(disk: MemoryDisk) -> None:
    ext = make(disk)
    (lost,) = put_many(ext, 1, written=False)
    again = make(disk)
    again.recover(lost)
    assert again.put(pack(2, 7)) == address_of(FILE_SIZE)
    again.write_back()
    assert again.get(lost) is None
    assert disk.names(EXT_DIRECTORY) == [layout.offset_name(FILE_SIZE)]


def test_a_damaged_unit_is_marked_as_the_end_of_its_file(disk: MemoryDisk) -> None:
    ext = make(disk)
    _, second = put_many(ext, 2)
    ext.chain.write(offset_of(second), b"\x7f\xff")
    again = make(disk)
    again.recover(second)
    assert disk.load(again.chain.path(0))[20:] == b"\xff\xff".ljust(FILE_SIZE - 20, b"\0")
    assert again.put(pack(3, 7)) == address_of(FILE_SIZE)


def test_an_address_far_behind_the_files_makes_no_files_up_to_it(disk: MemoryDisk) -> None:
    put_many(make(disk), 30)
    again = make(disk)
    far = address_of(2**60)
    again.recover(far)
    address = again.put(pack(1, 7))
    assert address is not None and address > far
    again.write_back()
    assert len(disk.names(EXT_DIRECTORY)) == 1
    again.recover(address_of(OFFSET_MAX - 100))
    assert again.put(pack(1, 7)) is None


def test_files_before_the_first_unit_that_is_needed_are_taken(disk: MemoryDisk) -> None:
    ext = make(disk)
    addresses = put_many(ext, 40)
    assert ext.detach_before(addresses[12]) == [EXT_DIRECTORY / layout.offset_name(0)]
    assert ext.get(addresses[12]) == ExtUnit(12, 7, b"")


# Within a store


def passes_even(message: NewMessage) -> bytes:
    return bytes([message.tags == "even"])


def fill(store: MessageStore, count: int, first: int = 0) -> None:
    store.calculate_bitmaps(passes_even)
    for number in range(first, first + count):
        store.append([new_message(body=b"%d" % number, tags=("even", "odd")[number % 2])])


def read(
    store: MessageStore, *, tags: str | None = None, record_filter: "Bitmaps | None" = None
) -> list[int]:
    found: list[int] = []
    offset = store.min_queue_offset("Orders", 0)
    while True:
        codes = None if tags is None else {tags_code(tags)}
        result = store.get("Orders", 0, offset, tags_codes=codes, record_filter=record_filter)
        found += [int(record.body) for record in decode_many(b"".join(result.records))]
        offset = result.next_offset
        if result.status not in (GetStatus.FOUND, GetStatus.NO_MATCHED_MESSAGE):
            return found


class Bitmaps:
    """Wants what the bitmap says is even, and counts the records that it had to look at."""

    def __init__(self) -> None:
        self.looked_at = 0

    def work(self, _record: bytes) -> int:
        return 1

    def may_match(self, _store_time: int, bitmap: bytes) -> bool:
        return bitmap != b"\0"

    def matches(self, record: bytes) -> bool:
        self.looked_at += 1
        return int(next(decode_many(record)).body) % 2 == 0


def codes_of(store: MessageStore) -> list[int]:
    queue = store._queues.find("Orders", 0)
    assert queue is not None
    return [entry.tags_code for entry in unpack_many(queue.read(queue.min_offset, 10_000))]


EVEN = list(range(0, 60, 2))


def test_readers_get_by_tags_and_by_bitmaps_what_they_want(open_store: OpenStore) -> None:
    store = open_store(EXTENDED)
    fill(store, 60)
    assert max(codes_of(store)) <= ADDRESS_MAX
    assert read(store) == list(range(60))
    assert read(store, tags="even") == EVEN
    wanted = Bitmaps()
    assert read(store, record_filter=wanted) == EVEN
    assert wanted.looked_at == 30


def test_a_clean_restart_keeps_units_and_goes_on(open_store: OpenStore) -> None:
    store = open_store(EXTENDED)
    fill(store, 30)
    store.close()
    again = open_store(EXTENDED)
    fill(again, 30, first=30)
    assert len(set(codes_of(again))) == 60
    wanted = Bitmaps()
    assert read(again, record_filter=wanted) == EVEN
    assert wanted.looked_at == 30


def test_a_store_that_does_not_extend_any_more_still_reads_units(open_store: OpenStore) -> None:
    store = open_store(EXTENDED)
    fill(store, 30)
    store.close()
    again = open_store(replace(EXTENDED, enable_consume_queue_ext=False))
    fill(again, 30, first=30)
    assert codes_of(again)[-1] == tags_code("odd")
    wanted = Bitmaps()
    assert read(again, record_filter=wanted) == EVEN
    assert wanted.looked_at == 15 + 30
    assert read(again, tags="odd") == [number for number in range(60) if number % 2]


def test_after_a_kill_nobodys_messages_are_missing(open_store: OpenStore, disk: MemoryDisk) -> None:
    store = open_store(EXTENDED)
    fill(store, 30)
    store._queues.write_back()
    fill(store, 30, first=30)
    again = open_store(EXTENDED, files=disk.after_kill())
    assert read(again, record_filter=Bitmaps()) == EVEN
    assert read(again, tags="odd") == [number for number in range(60) if number % 2]
    fill(again, 2, first=60)
    assert read(again, record_filter=Bitmaps()) == [*EVEN, 60]


def test_lost_units_cost_a_look_at_the_record_and_no_message(open_store: OpenStore, disk: MemoryDisk) -> None:
    store = open_store(EXTENDED)
    fill(store, 60)
    store.close()
    for name in disk.names(EXT_DIRECTORY):
        disk.remove(EXT_DIRECTORY / name)
    again = open_store(EXTENDED)
    assert read(again, record_filter=Bitmaps()) == EVEN
    assert set(EVEN) <= set(read(again, tags="even"))  # who must be exact compares the tags again
    fill(again, 2, first=60)
    assert read(again, record_filter=Bitmaps()) == [*EVEN, 60]


def test_entries_whose_units_a_start_has_removed_are_put_right_by_the_next_one(
    open_store: OpenStore, disk: MemoryDisk
) -> None:
    store = open_store(EXTENDED)
    fill(store, 30)
    store._queues.write_back()
    killed = disk.after_kill()
    open_store(EXTENDED, files=killed)  # dispatches all again, and is killed before that is written
    killed = killed.after_kill()
    verified = verify(ROOT, EXTENDED, layer=killed)
    assert verified.state is State.NEEDS_RECOVERY, verified.findings
    open_store(EXTENDED, files=killed).close()
    assert verify(ROOT, EXTENDED, layer=killed).state is State.SOUND


@pytest.mark.parametrize("bit", range(64))
def test_a_flipped_bit_in_an_address_touches_no_other_message(
    open_store: OpenStore, disk: MemoryDisk, bit: int
) -> None:
    store = open_store(EXTENDED)
    fill(store, 15)
    store.close()
    path = layout.consume_queue_path(ROOT, "Orders", 0, 0)
    data = bytearray(disk.load(path))
    data[14 * 20 + 12 + bit // 8] ^= 0x80 >> bit % 8
    disk.put(path, bytes(data))
    again = open_store(EXTENDED)
    fill(again, 15, first=15)
    assert read(again) == list(range(30))
    assert {*EVEN[:15]} - {14} <= {*read(again, record_filter=Bitmaps())} <= {*EVEN[:15]}
    assert {*EVEN[:15]} - {14} <= {*read(again, tags="even")}


def test_a_file_of_another_length_stops_the_start(open_store: OpenStore) -> None:
    store = open_store(EXTENDED)
    fill(store, 1)
    store.close()
    with pytest.raises(StoreDamaged, match="set mappedFileSizeConsumeQueueExt"):
        open_store(replace(EXTENDED, mapped_file_size_consume_queue_ext=512))


def test_a_deleted_topic_leaves_no_units(open_store: OpenStore, disk: MemoryDisk) -> None:
    store = open_store(EXTENDED)
    fill(store, 30)
    store._queues.write_back()
    store.delete_topic("Orders")
    assert disk.names(layout.deleted_dir(layout.consume_queue_exts_dir(ROOT))) == []
    assert not disk.exists(EXT_DIRECTORY)
    fill(store, 2)
    assert read(store, record_filter=Bitmaps()) == [0]


def test_a_deletion_that_a_kill_cut_before_the_units_were_gone_is_completed_at_the_next_start(
    open_store: OpenStore, disk: MemoryDisk
) -> None:
    store = open_store(EXTENDED)
    store.append([new_message(queue_id=queue_id) for queue_id in range(2)])
    store.close()
    state = disk.after_kill()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Discarded, "add", _killed_at_units)
        with pytest.raises(KeyboardInterrupt):
            open_store(EXTENDED, state).delete_topic("Orders")
    again = open_store(EXTENDED, state.after_kill())
    assert again.queues() == []


def _killed_at_units(discarded: Discarded, directory: Path, add: Any = Discarded.add) -> None:
    if layout.consume_queue_exts_dir(ROOT) in directory.parents:
        raise KeyboardInterrupt
    add(discarded, directory)


def test_what_a_loss_of_power_left_of_units_without_a_queue_stops_nobody(
    open_store: OpenStore, disk: MemoryDisk
) -> None:
    disk.make_directory(EXT_DIRECTORY)
    disk.put(EXT_DIRECTORY / layout.offset_name(0), b"")
    disk.put(EXT_DIRECTORY / layout.offset_name(FILE_SIZE), b"too short")
    store = open_store(EXTENDED)
    store.append([new_message()])
    store.close()
    assert disk.names(EXT_DIRECTORY) == [layout.offset_name(0)]
    assert disk.size(EXT_DIRECTORY / layout.offset_name(0)) == FILE_SIZE


def test_a_queue_is_deleted_whatever_a_loss_of_power_left_of_its_units(disk: MemoryDisk) -> None:
    queues = Queues(OpenFiles(disk, writable=True), ROOT, 400, FILE_SIZE)
    queues.find_or_create("Orders", 0).put(0, 0, 100, 0)
    disk.make_directory(EXT_DIRECTORY)
    disk.put(EXT_DIRECTORY / layout.offset_name(0), b"too short")
    queues.delete("Orders")
    assert not disk.exists(EXT_DIRECTORY)


def test_a_full_disk_keeps_entries_behind_their_units(open_store: OpenStore, disk: MemoryDisk) -> None:
    store = open_store(EXTENDED)
    fill(store, 10)
    queue = store._queues.find("Orders", 0)
    assert queue is not None and queue.ext is not None
    disk.space_bytes = 0
    with pytest.raises(OSError, match=str(errno.ENOSPC)):
        queue.write_back()
    assert queue.pending_bytes == 200
    assert read(store, record_filter=Bitmaps()) == [0, 2, 4, 6, 8]


def test_a_rebuild_makes_plain_entries_and_removes_the_units(open_store: OpenStore, disk: MemoryDisk) -> None:
    store = open_store(EXTENDED)
    fill(store, 60)
    store.close()
    rebuild(ROOT, EXTENDED, layer=disk)
    assert not disk.exists(layout.consume_queue_exts_dir(ROOT))
    again = open_store(EXTENDED)
    assert codes_of(again) == [tags_code(("even", "odd")[number % 2]) for number in range(60)]
    assert read(again, record_filter=Bitmaps()) == EVEN
    fill(again, 2, first=60)
    assert read(again, record_filter=Bitmaps()) == [*EVEN, 60]


def test_units_of_expired_messages_go_with_them(open_store: OpenStore, disk: MemoryDisk) -> None:
    store = open_store(EXTENDED)
    fill(store, 300)
    queue = store._queues.find("Orders", 0)
    assert queue is not None and queue.ext is not None
    queue.write_back()
    before = disk.names(EXT_DIRECTORY)
    store.retention.remove(queue.take_expired(queue.entry(200).physical_offset, store.written_offset))
    after = disk.names(EXT_DIRECTORY)
    assert after == before[-len(after) :] and len(after) < len(before) // 2
    unit = queue.ext.get(queue.entry(200).tags_code)
    assert unit is not None and unit.bitmap == b"\x01"


def test_verify_looks_for_the_tags_codes_in_the_units(open_store: OpenStore, disk: MemoryDisk) -> None:
    store = open_store(EXTENDED)
    fill(store, 60)
    store.close()
    assert verify(ROOT, EXTENDED, layer=disk).findings == []
    first = EXT_DIRECTORY / layout.offset_name(0)
    disk.put(first, b"\0" * 21 + disk.load(first)[21:])
    (finding,) = verify(ROOT, EXTENDED, layer=disk).findings
    assert finding.what.startswith("entry of queue offset 0")


@given(st.integers(0, 2**32), st.lists(st.tuples(st.integers(1, 12), st.booleans()), max_size=6))
@settings(deadline=None, max_examples=40)
def test_whatever_a_loss_of_power_leaves_no_bitmap_hides_a_message(
    seed: int, steps: list[tuple[int, bool]]
) -> None:
    disk, clock, chance = MemoryDisk(), ManualClock(), Random(seed)
    for count, loses_power in [*steps, (3, True), (3, True)]:
        store = MessageStore.open(ROOT, EXTENDED, files=disk, clock=clock)
        number = store.max_queue_offset("Orders", 0)
        fill(store, count, first=number)
        clock.advance(chance.choice([0, 2_000, 61_000]))
        fill(store, count, first=number + count)
        without_power = disk.after_power_loss(chance)
        store.close()
        disk = without_power if loses_power else disk
        with MessageStore.open(ROOT, EXTENDED, files=disk.after_kill(), clock=clock) as again:
            there = read(again)
            assert there == list(range(len(there)))
            assert read(again, record_filter=Bitmaps()) == [each for each in there if each % 2 == 0]
            assert read(again, tags="odd") == [each for each in there if each % 2]
