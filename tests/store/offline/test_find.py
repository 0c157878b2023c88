"""Finding messages in a store that nobody serves."""

from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from tests.store.conftest import HOST, ROOT, SMALL, OpenStore, new_message

from cometmq.format import layout
from cometmq.format.message_id import offset_message_id
from cometmq.format.properties import decode, encode
from cometmq.io.clock import ManualClock
from cometmq.store.directory import StoreDirectory
from cometmq.store.offline.find import FindQuery, Found, find
from cometmq.testing.memory_disk import MemoryDisk

BEGIN = 1_700_000_000_000
STEP_MS = 500
STORE_TIME_AT = 56
"""Of a record whose hosts are IPv4."""


@pytest.fixture
def filled(open_store: OpenStore, disk: MemoryDisk, clock: ManualClock) -> MemoryDisk:
    """A killed store of 90 messages, one each half second; the index has only the first part of them."""
    store = open_store()
    for n in range(90):
        topic = "Orders" if n % 3 else "Bills"
        store.append(
            [new_message(topic, n % 2, b"%03d" % n * 60, tags=f"t{n % 5}", keys=f"k{n} half{n // 2}")]
        )
        clock.advance(STEP_MS)
        if n == 50:
            clock.set_wall(clock.now_ms())
            store.close()
            store = open_store()
    return disk.after_kill()


def search(disk: MemoryDisk, *, use_index: bool = True, **asked: Any) -> list[int]:
    """The numbers of the messages found."""
    with StoreDirectory(ROOT, SMALL, disk) as store:
        return [number(found) for found in find(store, FindQuery(**asked), use_index=use_index)]


def number(found: Found) -> int:
    return int(found.record.body[:3])


@pytest.mark.parametrize("use_index", [True, False])
@pytest.mark.parametrize(
    ("asked", "numbers"),
    [
        ({"key": "k7"}, [7]),
        ({"key": "k88"}, [88]),
        ({"key": "half20"}, [40, 41]),
        ({"key": "half20", "topic": "Orders"}, [40, 41]),
        ({"key": "half21", "topic": "Orders"}, [43]),
        ({"key": "half44", "tags": "t4"}, [89]),
        ({"key": "k7", "topic": "Nowhere"}, []),
        ({"key": "nothing"}, []),
        ({"topic": "Bills", "tags": "t0"}, [0, 15, 30, 45, 60, 75]),
        ({"begin_time": BEGIN + 20_000, "end_time": BEGIN + 21_000}, [40, 41, 42]),
        ({"begin_time": BEGIN + 20_001, "end_time": BEGIN + 21_499, "topic": "Orders"}, [41]),
        ({"end_time": BEGIN + 999}, [0, 1]),
        ({"begin_time": BEGIN + 44_001}, [89]),
        ({"begin_time": BEGIN + 45_000}, []),
        ({"key": "k40", "begin_time": BEGIN + 20_001}, []),
    ],
)
def test_all_that_is_asked_for_holds(
    filled: MemoryDisk, use_index: bool, asked: dict[str, Any], numbers: list[int]
) -> None:
    assert search(filled, use_index=use_index, **asked) == numbers


def test_an_offset_id_names_its_message(filled: MemoryDisk) -> None:
    with StoreDirectory(ROOT, SMALL, filled) as store:
        (found,) = find(store, FindQuery(key="k66"))
    offset_id = offset_message_id(HOST, found.record.physical_offset)
    assert search(filled, message_id=offset_id) == [66]
    assert search(filled, message_id=offset_id.lower()) == [66]
    assert search(filled, message_id=offset_id, topic="Bills") == [66]
    assert search(filled, message_id=offset_id, topic="Orders") == []
    assert search(filled, message_id=offset_message_id(HOST, found.record.physical_offset + 1)) == []
    other = bytes([10, 0, 0, 1, 0, 0, 42, 159])
    assert search(filled, message_id=offset_message_id(other, found.record.physical_offset)) == []


@pytest.mark.parametrize("is_closed", [True, False])
def test_topics_whose_hashes_are_the_same_are_told_apart(
    open_store: OpenStore, disk: MemoryDisk, is_closed: bool
) -> None:
    store = open_store()
    for n in range(6):
        store.append([new_message(("shard1a", "shard2B")[n % 2], 0, b"%03d" % n * 60, keys="k k")])
    if is_closed:  # else nothing of it is in the index, and the log is scanned
        store.close()
    else:
        disk = disk.after_kill()
    assert search(disk, key="k", topic="shard1a") == [0, 2, 4]
    assert search(disk, key="k", topic="shard2B") == [1, 3, 5]
    assert search(disk, key="k") == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("unique_id", ["ABCDEF01", "abcdef01", "Ab-1"])
def test_a_unique_id_is_found_as_it_is_spelt_and_capitals_in_any_case(
    open_store: OpenStore, disk: MemoryDisk, unique_id: str
) -> None:
    store = open_store()
    message = new_message("Orders", 0, b"001" * 60)
    store.append([message._replace(properties=encode({"UNIQ_KEY": unique_id}))])
    store.close()
    for use_index in (True, False):
        assert search(disk, use_index=use_index, message_id=unique_id) == [1]
        found = search(disk, use_index=use_index, message_id=unique_id.lower())
        assert found == ([1] if unique_id in (unique_id.lower(), unique_id.upper()) else [])


def test_unique_ids_keys_and_offset_ids_of_a_real_broker_lead_to_their_messages(
    golden: Mapping[str, Path], golden_facts: Mapping[str, Any]
) -> None:
    dump = golden_facts["store-killed-recovered-dump"]["messages"]
    acked = [send for send in golden_facts["store-killed"]["acked"] if send.get("keys")][::97]
    assert acked and dump
    with StoreDirectory(golden["store-killed"]) as store:
        for send in acked:
            for wanted in (FindQuery(message_id=send["msgId"]), FindQuery(key=send["keys"].split()[0])):
                (found,) = islice(find(store, wanted), 2)
                assert decode(found.record.properties)["UNIQ_KEY"] == send["msgId"]


def test_a_message_with_a_damaged_body_is_given_with_what_is_wrong(filled: MemoryDisk) -> None:
    filled.open(layout.commitlog_path(ROOT, 0), writable=True).write(120, b"\xff")
    with StoreDirectory(ROOT, SMALL, filled) as store:
        (found,) = find(store, FindQuery(key="k0"))
    assert "BODYCRC" in found.damage


def test_an_index_that_cannot_be_used_is_not(filled: MemoryDisk) -> None:
    directory = layout.index_dir(ROOT)
    path = directory / filled.names(directory)[0]
    filled.put(path, filled.load(path)[:-20])
    assert search(filled, key="k7") == [7]
    filled.remove(path)
    assert search(filled, key="k7") == [7]


def test_damage_hides_only_what_it_hit(filled: MemoryDisk) -> None:
    log = layout.commitlog_path(ROOT, 0)
    size = int.from_bytes(filled.load(log)[:4], "big")
    filled.open(log, writable=True).write(size, b"\xff" * 50)
    assert search(filled, use_index=False) == [n for n in range(90) if n != 1]


def test_a_damaged_store_time_hides_no_message_that_is_asked_for_without_one(filled: MemoryDisk) -> None:
    filled.open(layout.commitlog_path(ROOT, 0), writable=True).write(STORE_TIME_AT, b"\xff")
    assert search(filled, use_index=False) == list(range(90))
    assert search(filled, key="k0", use_index=False) == [0]
    assert 0 not in search(filled, begin_time=BEGIN, use_index=False)


def test_a_file_that_is_missing_hides_only_its_messages(filled: MemoryDisk) -> None:
    everything = search(filled, topic="Orders")
    filled.remove(layout.commitlog_path(ROOT, 8_192))
    left = search(filled, topic="Orders")
    assert everything[:3] == left[:3] and everything[-3:] == left[-3:]
    assert len(left) < len(everything)


def test_nothing_is_written(filled: MemoryDisk) -> None:
    before = {path: filled.load(path) for path in filled._files}
    search(filled, key="k70")
    search(filled, topic="Orders")
    assert {path: filled.load(path) for path in filled._files} == before


def test_progress_is_told_while_scanning(filled: MemoryDisk) -> None:
    steps: list[tuple[int, int]] = []
    with StoreDirectory(ROOT, SMALL, filled) as store:
        list(find(store, FindQuery(topic="Orders"), progress=lambda *step: steps.append(step)))
    assert steps == sorted(steps)
    assert steps[-1][0] <= steps[-1][1]
