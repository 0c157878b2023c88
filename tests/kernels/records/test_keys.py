from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.format.delay_level import DelayLevels
from cometmq.format.host import pack_host
from cometmq.format.java.java_hash import index_key_hash
from cometmq.format.layout import commitlog_dir
from cometmq.format.record import Record, encode
from cometmq.format.sys_flag import TRANSACTION_ROLLBACK
from cometmq.kernels import plain
from cometmq.kernels.ops import Ops

HOSTS = pack_host("127.0.0.1", 10911), pack_host("::1", 10911)
TIME = 1_700_000_000_000


def log_of(*records: Record, base_offset: int = 0) -> bytes:
    data = b""
    for record in records:
        data += encode(record._replace(physical_offset=base_offset + len(data)))
    return data


def record(topic: str = "A", properties: str = "", body: bytes = b"", sys_flag: int = 0) -> Record:
    return Record(topic, body, properties.encode(), 0, 0, 0, 0, sys_flag, 1, HOSTS[0], TIME, HOSTS[0])


@pytest.mark.parametrize("store", ["store-clean", "store-killed", "store-killed-recovered"])
def test_the_keys_of_a_real_brokers_records_are_those_that_dispatch_gives(
    golden: Mapping[str, Path], ops: Ops, store: str
) -> None:
    data = min(commitlog_dir(golden[store]).iterdir()).read_bytes()
    scan = ops.scan(data, base_offset=0)
    expected = ops.dispatch(data, scan, DelayLevels.parse())
    found = ops.read_keys(data, base_offset=0, start=0, end=len(data))
    assert found.key_hash.tolist() == expected.key_hash.tolist()
    assert found.physical_offset.tolist() == scan.physical_offset[expected.key_record].tolist()
    assert found.store_time.tolist() == scan.store_time[expected.key_record].tolist()
    assert found.stop_position == scan.stop_position


RECORDS = st.builds(
    Record,
    topic=st.sampled_from(["A", "Orders", "%RETRY%g", "t" * 127, "t" * 300]),
    body=st.binary(max_size=40),
    properties=st.lists(
        st.sampled_from(["UNIQ_KEY\1u\2", "KEYS\1a b  c\2", "TAGS\1t\2", "x\1y\2", "KEYS\1 \2", "é\1ü\2"]),
        max_size=4,
    ).map(lambda pieces: "".join(pieces).encode()),
    queue_id=st.just(0),
    queue_offset=st.just(0),
    physical_offset=st.just(0),
    flag=st.just(0),
    sys_flag=st.sampled_from([0, 4, 8, 12]),
    born_time=st.just(1),
    born_host=st.sampled_from(HOSTS),
    store_time=st.integers(0, 2**62),
    store_host=st.sampled_from(HOSTS),
    reconsume_times=st.just(0),
    prepared_transaction_offset=st.just(0),
    body_crc=st.none(),
    magic=st.none(),
)


@given(st.lists(RECORDS, max_size=8), st.integers(0, 1 << 40), st.data())
def test_compiled_keys_begin_as_the_plain_ones_whatever_the_bytes(
    compiled: Ops, records: list[Record], base_offset: int, draw: st.DataObject
) -> None:
    data = bytearray(log_of(*records, base_offset=base_offset))
    if data and draw.draw(st.booleans()):
        data[draw.draw(st.integers(0, len(data) - 1))] ^= draw.draw(st.integers(1, 255))
    end = draw.draw(st.integers(0, len(data)))
    expected = plain.read_keys(data, base_offset=base_offset, start=0, end=end)
    found = compiled.read_keys(data, base_offset=base_offset, start=0, end=end)
    count = len(found.key_hash)
    assert found.stop_position <= expected.stop_position
    assert found.key_hash.tolist() == expected.key_hash[:count].tolist()
    assert found.physical_offset.tolist() == expected.physical_offset[:count].tolist()
    assert found.store_time.tolist() == expected.store_time[:count].tolist()
    assert (expected.physical_offset[count:] >= base_offset + found.stop_position).all()


def test_usual_records_are_read_to_the_end(ops: Ops) -> None:
    data = log_of(*(record(properties=f"UNIQ_KEY\1{n}\2TAGS\1t\2", body=bytes(n)) for n in range(100)))
    found = ops.read_keys(data, base_offset=0, start=0, end=len(data))
    assert found.stop_position == len(data)
    expected = [index_key_hash("A", key) for n in range(100) for key in (str(n), "T#t")]
    assert found.key_hash.tolist() == expected


def test_what_was_rolled_back_has_no_keys(ops: Ops) -> None:
    data = log_of(record(properties="KEYS\1k\2", sys_flag=TRANSACTION_ROLLBACK))
    assert len(ops.read_keys(data, base_offset=0, start=0, end=len(data)).key_hash) == 0


def test_a_record_of_very_many_keys_is_left_or_read_whole(ops: Ops) -> None:
    data = log_of(record(), record(properties=f"KEYS\1{'k ' * 10_000}\2"), record())
    found = ops.read_keys(data, base_offset=0, start=0, end=len(data))
    assert found.stop_position in (len(log_of(record())), len(data))
    assert len(found.key_hash) in (0, 10_000)
