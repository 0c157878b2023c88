from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from cometmq.format import queue_entry
from cometmq.format.delay_level import SCHEDULE_TOPIC, DelayLevels
from cometmq.format.dispatch import dispatch_of
from cometmq.format.host import pack_host
from cometmq.format.java.java_hash import index_key_hash, java_hash
from cometmq.format.layout import commitlog_dir, consume_queues_dir, parse_offset_name
from cometmq.format.record import Record, encode, record_at
from cometmq.format.scan import scan as scan_records
from cometmq.kernels.ops import Dispatch, Ops

HOST = pack_host("127.0.0.1", 10911)
DELAY_LEVELS = DelayLevels.parse()
STORES = pytest.mark.parametrize("store", ["store-clean", "store-killed", "store-killed-recovered"])


def record(topic: str, properties: str = "", *, queue_id: int = 0, sys_flag: int = 0) -> Record:
    return Record(topic, b"", properties.encode(), queue_id, 0, 0, 0, sys_flag, 1, HOST, 1_000_000, HOST)


def dispatch(ops: Ops, *records: Record) -> Dispatch:
    data = b""
    for each in records:
        data += encode(each._replace(physical_offset=len(data)))
    return ops.dispatch(data, ops.scan(data, base_offset=0), DELAY_LEVELS)


@STORES
def test_makes_the_queue_files_of_a_real_broker_byte_for_byte(
    golden: Mapping[str, Path], ops: Ops, store: str
) -> None:
    made: dict[tuple[str, int], bytearray] = {}
    for path in sorted(commitlog_dir(golden[store]).iterdir()):
        data = path.read_bytes()
        scan = ops.scan(data, base_offset=parse_offset_name(path.name))
        found = ops.dispatch(data, scan, DELAY_LEVELS)
        for row in np.flatnonzero(found.in_queue).tolist():
            file = made.setdefault(found.queues[found.queue[row]], bytearray())
            position = int(scan.queue_offset[row]) * queue_entry.SIZE
            assert position == len(file)
            file += queue_entry.pack(scan.physical_offset[row], scan.size[row], found.tags_code[row])
    real: dict[tuple[str, int], bytes] = {}
    for path in sorted(consume_queues_dir(golden[store]).glob("*/*/*")):
        queue = path.parts[-3], int(path.parts[-2])
        real[queue] = real.get(queue, b"") + path.read_bytes()
    assert {queue: bytes(file) for queue, file in made.items()} == {
        queue: file[: len(made[queue])] for queue, file in real.items()
    }
    assert not any(any(file[len(made[queue]) :]) for queue, file in real.items())


@STORES
def test_says_of_a_real_brokers_records_what_the_definition_says(
    golden: Mapping[str, Path], ops: Ops, store: str
) -> None:
    path = min(commitlog_dir(golden[store]).iterdir())
    data = path.read_bytes()
    found = ops.dispatch(data, ops.scan(data, base_offset=0), DELAY_LEVELS)
    expected = [
        dispatch_of(record_at(data, head), DELAY_LEVELS) for head in scan_records(data, base_offset=0)
    ]
    assert [found.queues[number] for number in found.queue] == [
        (entry.topic, entry.queue_id) for entry in expected
    ]
    assert found.tags_code.tolist() == [entry.tags_code for entry in expected]
    assert found.in_queue.tolist() == [entry.in_queue for entry in expected]
    assert found.in_index.tolist() == [entry.in_index for entry in expected]
    keys = [
        (row, index_key_hash(entry.topic, key))
        for row, entry in enumerate(expected)
        for key in (entry.keys if entry.in_index else ())
    ]
    assert list(zip(found.key_record.tolist(), found.key_hash.tolist(), strict=True)) == keys


def test_numbers_queues_by_topic_and_queue_id_in_the_order_they_come(ops: Ops) -> None:
    found = dispatch(
        ops, record("B"), record("A", queue_id=1), record("B"), record("A"), record("A", queue_id=1)
    )
    assert found.queues == [("B", 0), ("A", 1), ("A", 0)]
    assert found.queue.tolist() == [0, 1, 0, 2, 1]


def test_leaves_prepared_and_rolled_back_transactions_out(ops: Ops) -> None:
    found = dispatch(ops, *(record("A", "KEYS\x01k\x02", sys_flag=flag) for flag in (0, 4, 8, 12)))
    assert found.in_queue.tolist() == [True, False, True, False]
    assert found.in_index.tolist() == [True, True, True, False]
    assert found.key_record.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("delay", "tags_code"),
    [("1", 1_001_000), ("18", 8_200_000), ("99", 8_200_000), ("+2", 1_005_000)]
    + [("2147483647", 8_200_000), ("0" * 40 + "1", 1_001_000), ("+" + "0" * 30 + "2", 1_005_000)]
    + [
        (text, 2598919)
        for text in (
            "2147483648",
            "9999999999",
            "9" * 40,
            "0" * 40,
            "++1",
            "0",
            "-1",
            "x",
            " 1",
            "1_0",
            "٣",
            "99999999999",
            "+",
            "1\n",
        )
    ],
)
def test_a_delayed_message_has_its_time_for_a_tags_code(ops: Ops, delay: str, tags_code: int) -> None:
    properties = f"TAGS\x01TagA\x02DELAY\x01{delay}\x02"
    found = dispatch(ops, record(SCHEDULE_TOPIC, properties), record("TopicA", properties))
    assert found.tags_code.tolist() == [tags_code, 2598919]


def test_indexes_the_unique_id_then_the_keys_then_the_tags(ops: Ops) -> None:
    found = dispatch(ops, record("TopicA", "TAGS\x01t\x02KEYS\x01k1  k2 \x02UNIQ_KEY\x01id\x02"))
    assert found.key_hash.tolist() == [index_key_hash("TopicA", key) for key in ("id", "k1", "k2", "T#t")]


def test_takes_the_last_of_two_properties_of_one_name(ops: Ops) -> None:
    found = dispatch(ops, record("A", "KEYS\x01old older\x02KEYS\x01new\x02KEYS\x01\x02"))
    assert found.key_hash.tolist() == [index_key_hash("A", "new")]


def test_takes_no_similar_name_for_one_it_knows(ops: Ops) -> None:
    names = ("KEYSS", "\0KEYS", "KEY", "keys", "XUNIQ_KEY", "UNIQ_KEYX", "\0UNIQ_KEY", "\0\0\0\0TAGS")
    found = dispatch(ops, record("A", "".join(f"{name}\x01value\x02" for name in names)))
    assert found.key_hash.tolist() == [] and found.tags_code.tolist() == [0]


@pytest.mark.parametrize(
    ("properties", "is_light"),
    [
        ("INNER_MULTI_QUEUE_OFFSET\x013\x02", True),
        ("TAGS\x01t\x02INNER_MULTI_QUEUE_OFFSET\x013", True),
        ("INNER_MULTI_QUEUE_OFFSET\x013\x02INNER_MULTI_QUEUE_OFFSET\x01\x02", True),
        ("INNER_MULTI_QUEUE_OFFSET\x01\x02", False),
        ("INNER_MULTI_DISPATCH\x01%LMQ%a\x02", False),
        *((f"{name}\x013\x02", False) for name in ("INNER_MULTI_QUEUE_OFFSEt", "xNNER_MULTI_QUEUE_OFFSET")),
        ("KEYS\x01INNER_MULTI_QUEUE_OFFSET\x02", False),
    ],
)
def test_tells_which_records_may_be_in_light_queues(ops: Ops, properties: str, is_light: bool) -> None:
    found = dispatch(ops, record("A"), record("A", properties))
    assert found.is_light.tolist() == [False, is_light]


def test_makes_room_for_however_many_keys_a_record_has(ops: Ops) -> None:
    keys = [f"{number:x}" for number in range(6000)]
    found = dispatch(ops, record("A", f"KEYS\x01{' '.join(keys)}\x02"), record("A", "KEYS\x01last\x02"))
    assert found.key_hash.tolist() == [index_key_hash("A", key) for key in [*keys, "last"]]


def test_a_hash_that_has_no_absolute_value_is_zero(ops: Ops) -> None:
    assert java_hash("A#ohaokoM") == -(2**31)
    assert dispatch(ops, record("A", "KEYS\x01ohaokoM\x02")).key_hash.tolist() == [0]
