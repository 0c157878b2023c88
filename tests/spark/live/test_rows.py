import re

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
from cometmq.spark.live.rows import Row, check_columns, rows_of

KINDS: dict[str, DataType] = {
    "string": StringType(),
    "binary": BinaryType(),
    "int": IntegerType(),
    "array<string>": ArrayType(StringType()),
    "map<string,string>": MapType(StringType(), StringType()),
}


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
    assert rows_of(batch, None, iter(["k"])) == [Row(message, None)]


def test_what_is_null_is_left_out_and_the_option_names_the_topic() -> None:
    batch = pa.RecordBatch.from_pylist(
        [{"topic": None, "body": "text", "tags": None, "keys": None, "properties": None, "queue_id": 3}]
    )
    message = Message("orders", b"text", properties={"IDEMPOTENCE_KEY": "k"})
    assert rows_of(batch, "orders", iter(["k"])) == [Row(message, 3)]


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
        ("body binary, deliver_time int", "say nothing, use delay, a level"),
        ("body binary", "there is no column topic: select it, or give the option topic"),
        ("topic string, body binary, queue_id int, sharding_key string", "select one of them"),
    ],
)
def test_columns_that_are_wrong_are_named(columns: str, answer: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(answer)):
        check_columns(schema(columns), None)
