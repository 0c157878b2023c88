"""The columns of a message in Spark: their types and meanings.

Each column is declared nullable; a meaning says so where null occurs.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from cometmq.errors import SettingsError
from cometmq.format.record import FIELDS, INT, LONG, UNSIGNED

if TYPE_CHECKING:
    import pyarrow as pa


class Column(NamedTuple):
    """A column's type in Spark, and its meaning."""

    spark: DataType
    meaning: str


_TEXT: Final = StringType()
_TIME: Final = TimestampType()
_BYTES: Final = BinaryType()
_TEXTS: Final = ArrayType(StringType())
_TEXT_BY_TEXT: Final = MapType(StringType(), StringType())

_NUMBERS: Final = {INT: IntegerType(), UNSIGNED: IntegerType(), LONG: LongType()}
"""The types of the record's numbers, by kind: as in ``kernels.arrow.plain``."""

BROKER: Final = "broker"
BODY: Final = "body"
BODY_ERROR: Final = "body_error"
NOT_IN_RECORDS: Final = (BROKER, BODY_ERROR)
"""Columns of texts that the kernels know nothing of."""


def _number(name: str) -> DataType:
    return _NUMBERS[FIELDS[name]]


COLUMNS: Final[Mapping[str, Column]] = {
    "topic": Column(_TEXT, "topic name"),
    BROKER: Column(_TEXT, "name of the broker; no file has it: what the option broker says there, or null"),
    "queue_id": Column(_number("queue_id"), "which queue of the topic"),
    "queue_offset": Column(_number("queue_offset"), "index of the message in its queue"),
    "physical_offset": Column(_number("physical_offset"), "first byte of its record in the CommitLog"),
    "offset_id": Column(_TEXT, "RocketMQ's offset message id: store host and physical offset in hex"),
    "unique_id": Column(_TEXT, "the id that its producer set (UNIQ_KEY); null when it set none"),
    "tags": Column(_TEXT, "its tag; null when it has none"),
    "keys": Column(_TEXTS, "business keys, under which it can be found; empty when it has none"),
    "properties": Column(_TEXT_BY_TEXT, "all its properties, those in columns of their own among them"),
    BODY: Column(_BYTES, "the payload, decompressed; null when it cannot be decompressed (PERMISSIVE)"),
    "born_time": Column(_TIME, "when its producer created it"),
    "store_time": Column(_TIME, "when the broker appended it"),
    "born_host": Column(_TEXT, "ip:port of its producer"),
    "store_host": Column(_TEXT, "ip:port of the broker"),
    "reconsume_times": Column(_number("reconsume_times"), "how often consumers gave it back"),
    "sys_flag": Column(
        _number("sys_flag"), "compression, transaction state and host sizes: MessageSysFlag's bits"
    ),
    "flag": Column(_number("flag"), "the application's own number"),
    "body_crc": Column(_number("body_crc"), "CRC-32 of the body as stored, 31 bits"),
    BODY_ERROR: Column(_TEXT, "why the body cannot be decompressed, and is null; null when nothing is wrong"),
}

AMBIGUOUS: Final = ("msg_id", "message_id")
"""Names that RocketMQ uses for two different ids."""


def spark_schema(columns: Iterable[str] = COLUMNS) -> StructType:
    """Return the Spark schema of ``columns``, in their order."""
    return StructType([StructField(name, COLUMNS[name].spark) for name in columns])


def arrow_schema(columns: Iterable[str] = COLUMNS) -> "pa.Schema":
    """Return the Arrow schema of ``columns``, in their order, as batches are passed to Spark."""
    import pyarrow as pa  # noqa: PLC0415  large, and not needed to check options

    from cometmq.kernels.arrow.plain import TYPES  # noqa: PLC0415  as above

    return pa.schema([(name, pa.string() if name in NOT_IN_RECORDS else TYPES[name]) for name in columns])


def check_together(columns: Iterable[str]) -> None:
    """Raise SettingsError if the column of a body's error is there without the body."""
    if BODY_ERROR in (names := set(columns)) and BODY not in names:
        raise SettingsError(f"column {BODY_ERROR} is about column {BODY}: name both, or neither")


def no_column(name: str) -> str:
    """Return the error text for an unknown column, with the known ones."""
    if name in AMBIGUOUS:
        return f"there is no column {name}, use unique_id, which its producer set, or offset_id"
    return f"there is no column {name}, use some of {', '.join(COLUMNS)}"


def columns_of(schema: StructType) -> tuple[str, ...]:
    """Return the names of a schema's columns, checked.

    Raises:
        SettingsError: a column does not exist, or has another type.
    """
    for field in schema.fields:
        column = COLUMNS.get(field.name)
        if column is None:
            raise SettingsError(f"schema: {no_column(field.name)}")
        if field.dataType != column.spark:
            asked, right = field.dataType.simpleString(), column.spark.simpleString()
            raise SettingsError(
                f"schema: column {field.name} is of type {right}, not {asked}: cast it after reading"
            )
    check_together(schema.fieldNames())
    return tuple(schema.fieldNames())
