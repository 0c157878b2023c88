import re
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from cometmq.errors import SettingsError
from cometmq.message import Message
from cometmq.spark.sink.rows import MessageRow, check_columns, rows_of

KINDS: dict[str, DataType] = {
    "string": StringType(),
    "binary": BinaryType(),
    "int": IntegerType(),
    "array<string>": ArrayType(StringType()),
    "map<string,string>": MapType(StringType(), StringType()),
}


def named_k(*_: object) -> str:
    return "k"


def schema(text: str) -> StructType:
    columns = (column.split(" ") for column in text.split(", "))
    return StructType([StructField(name, KINDS[kind]) for name, kind in columns])


def test_every_column_becomes_what_it_means() -> None:
    kinds: dict[str, pa.DataType] = {
        "topic": pa.string(),
        "body": pa.binary(),
        "tags": pa.string(),
        "keys": pa.list_(pa.string()),
        "properties": pa.map_(pa.string(), pa.string()),
        "sharding_key": pa.string(),
        "delay": pa.int32(),
        "flag": pa.int32(),
    }
    batch = pa.RecordBatch.from_pylist(
        [
            {
                "topic": "orders",
                "body": b"1",
                "tags": "paid",
                "keys": ["a", "b"],
                "properties": [
                    ("size", "3"),
                    ("TAGS", "paid"),
                    ("UNIQ_KEY", "x"),
                    ("IDEMPOTENCE_KEY", "old"),
                ],
                "sharding_key": "ann",
                "delay": 2,
                "flag": 7,
            }
        ],
        pa.schema(kinds),
    )
    properties = {"size": "3", "IDEMPOTENCE_KEY": "k"}
    message = Message("orders", b"1", "paid", ("a", "b"), properties, 7, 2, "ann")
    assert rows_of(batch, None, named_k) == [MessageRow(message, None)]


def test_times_are_ms_since_the_epoch() -> None:
    time = datetime(2026, 1, 31, 9, tzinfo=UTC)
    timed = pa.RecordBatch.from_pylist([{"body": b"1", "deliver_time": time, "delay_ms": None}])
    assert [one.message.deliver_time for one in rows_of(timed, "t", named_k)] == [1_769_850_000_000]
    timed = pa.RecordBatch.from_pylist([{"body": b"1", "deliver_time": 17, "delay_ms": 5}])
    (row,) = rows_of(timed, "t", named_k)
    assert (row.message.deliver_time, row.message.delay_ms) == (17, 5)


def test_what_is_null_is_left_out_and_the_option_names_the_topic() -> None:
    batch = pa.RecordBatch.from_pylist(
        [{"topic": None, "body": "text", "tags": None, "keys": None, "properties": None, "queue_id": 3}]
    )
    kinds: dict[str, pa.DataType] = {
        "body": pa.string(),
        "queue_id": pa.int32(),
        "properties": pa.map_(pa.string(), pa.string()),
    }
    nulls = pa.RecordBatch.from_pylist(
        [{"body": "text", "queue_id": 3, "properties": [("shoe", None)]}], pa.schema(kinds)
    )
    message = Message("orders", b"text", properties={"IDEMPOTENCE_KEY": "k"})
    assert rows_of(batch, "orders", named_k) == rows_of(nulls, "orders", named_k) == [MessageRow(message, 3)]


def test_rows_that_make_no_message_are_handed_over_with_the_reason() -> None:
    bodies: list[bytes | None] = [b"1", None, b"", b"2", bytes(4 * 1024 * 1024 + 1), b"3"]
    batch = pa.RecordBatch.from_pylist(
        [{"body": body, "keys": ["a b"] if body == b"3" else None} for body in bodies]
    )
    bad: list[tuple[Any, str]] = []
    rows = rows_of(batch, "orders", named_k, lambda row, error: bad.append((row["body"], str(error))))
    assert [row.message.body for row in rows] == [b"1", b"2"]
    assert [body for body, _ in bad] == [bodies[place] for place in (1, 2, 4, 5)]
    assert "body is empty" in bad[0][1]
    assert "4194305 bytes" in bad[2][1]
    assert "nor hold a blank" in bad[3][1]


def test_columns_may_be_in_any_case() -> None:
    check_columns(schema("Topic string, BODY string, Order_Id string"), None, "order_id")
    batch = pa.RecordBatch.from_pylist([{"Topic": "orders", "BODY": "text", "Order_Id": "7"}])
    (row,) = rows_of(batch, None, lambda columns, _: str(columns["order_id"]))
    assert row.message == Message("orders", b"text", properties={"IDEMPOTENCE_KEY": "7"})
    with pytest.raises(SettingsError, match="column body is there more than once"):
        check_columns(schema("body string, Body string"), "orders")


def test_columns_that_say_enough_are_taken() -> None:
    check_columns(schema("body string"), "orders")
    check_columns(
        schema("topic string, body binary, keys array<string>, properties map<string,string>"), None
    )


@pytest.mark.parametrize(
    ("columns", "answer"),
    [
        ("body binary, bodi int", "column bodi: the sink does not take it, select some of topic, body"),
        ("body int", "column body: cast it from int to binary or string"),
        ("tags string", "there is no column body"),
        ("body binary, deliver_time int", "column deliver_time: cast it from int to timestamp or bigint"),
        ("body binary", "there is no column topic: select it, or give the option topic"),
        ("topic string, body binary, queue_id int, sharding_key string", "select one of them"),
    ],
)
def test_columns_that_are_wrong_are_named(columns: str, answer: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(answer)):
        check_columns(schema(columns), None)


def test_the_column_that_names_a_row_must_be_there_as_text() -> None:
    check_columns(schema("body string, order_id string"), "orders", "order_id")
    with pytest.raises(SettingsError, match="option idempotenceKey order_id: there is no such column"):
        check_columns(schema("body string"), "orders", "order_id")
    with pytest.raises(SettingsError, match="column order_id: cast it from int to string"):
        check_columns(schema("body string, order_id int"), "orders", "order_id")
