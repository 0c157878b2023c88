"""Answers to pulls as batches: the same as a client's messages, compiled or plain."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cometmq import kernels
from cometmq.errors import DamagedRecord
from cometmq.format.compression import compress
from cometmq.format.host import pack_host
from cometmq.format.record import Record, decode_many, encode
from cometmq.format.stored import stored_message
from cometmq.format.sys_flag import CompressionType, compressed_with
from cometmq.kernels import plain
from cometmq.kernels.arrow.plain import TYPES, schema
from cometmq.kernels.ops import Ops
from cometmq.spark import pulled
from cometmq.spark.pulled import batches

ONE = Record(
    topic="Orders",
    body=b"a body",
    properties=b"TAGS\1paid\2UNIQ_KEY\1id\2",
    queue_id=3,
    queue_offset=17,
    physical_offset=12_345,
    flag=6,
    sys_flag=0,
    born_time=1_700_000_000_001,
    born_host=pack_host("::1", 8),
    store_time=1_700_000_000_002,
    store_host=pack_host("10.0.0.1", 10911),
)
RECORDS = st.builds(
    ONE._replace,
    topic=st.sampled_from(("Orders", "t" * 130, "主题")),
    body=st.binary(max_size=30),
    properties=st.sampled_from((b"", ONE.properties, b"TAGS\1open\2", b"KEYS\1a b\2TAGS\1paid\2")),
    queue_offset=st.integers(0, 2**40),
    physical_offset=st.integers(0, 2**50),
    born_host=st.sampled_from((ONE.born_host, ONE.store_host)),
)


def refuse(damage: str) -> None:
    pytest.fail(damage)


def read(body: bytes, ops: Ops | None = None, tags: list[str] | None = None) -> pa.Table:
    found = batches(body, on_damage=refuse, tags=tags, ops=ops)
    return pa.Table.from_batches(found, schema(TYPES))


@settings(deadline=None, max_examples=40)
@given(st.lists(RECORDS, max_size=5), st.sampled_from((None, ["paid"], ["paid", "other"], [])))
def test_kernels_give_what_plain_python_gives_and_clients_get(
    records: list[Record], tags: list[str] | None
) -> None:
    body = b"".join(map(encode, records))
    table = read(body, kernels.load(), tags)
    assert table.equals(read(body, plain, tags))
    messages = [stored_message(record) for record in decode_many(body)]
    chosen = [message for message in messages if tags is None or message.tags in tags]
    for column in ("topic", "queue_offset", "physical_offset", "offset_id", "tags", "body", "born_host"):
        assert table[column].to_pylist() == [getattr(message, column) for message in chosen]


@settings(deadline=None, max_examples=40)
@given(st.lists(RECORDS, min_size=1, max_size=3), st.floats(0, 1, exclude_max=True), st.integers(0, 255))
def test_damage_is_found_at_the_same_place(records: list[Record], at: float, value: int) -> None:
    damaged = bytearray(b"".join(map(encode, records)))
    damaged[int(at * len(damaged))] = value
    assert outcome(bytes(damaged), kernels.load()) == outcome(bytes(damaged), plain)


def outcome(body: bytes, ops: Ops) -> tuple[int, str]:
    """Read as far as that goes: how many rows, and why no more."""
    rows = 0
    try:
        for batch in batches(body, ["physical_offset"], on_damage=refuse, ops=ops):
            rows += batch.num_rows
    except DamagedRecord as damage:
        return rows, str(damage)
    return rows, ""


def test_a_record_that_is_cut_is_refused_after_those_before_it() -> None:
    whole = encode(ONE)
    for end in (1, 7, 50, len(whole) - 1):
        rows, why = outcome(whole + whole[:end], kernels.load())
        assert rows == 1 and f"record at {len(whole)}" in why


def test_many_records_come_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulled, "RECORDS_MAX", 2)
    body = b"".join(encode(ONE._replace(queue_offset=number)) for number in range(5))
    found = [batch.column(0).to_pylist() for batch in batches(body, ["queue_offset"], on_damage=refuse)]
    assert found == [[0, 1], [2, 3], [4]]


def test_bodies_are_whole() -> None:
    stored = compress(b"whole", CompressionType.ZLIB)
    body = encode(ONE._replace(body=stored, sys_flag=compressed_with(0, CompressionType.ZLIB)))
    (batch,) = batches(body, ["body"], on_damage=refuse)
    assert batch.to_pylist() == [{"body": b"whole"}]
