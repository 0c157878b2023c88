import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StringType, StructType

from cometmq.errors import SettingsError
from cometmq.kernels.arrow import plain as plain_arrow
from cometmq.spark.schema import COLUMNS, NOT_IN_RECORDS, arrow_schema, columns_of, spark_schema


def test_batches_are_of_the_types_that_spark_demands() -> None:
    demanded = to_arrow_schema(spark_schema(), timezone="UTC")
    assert demanded.equals(arrow_schema())
    gathered = [name for name in COLUMNS if name not in NOT_IN_RECORDS]
    assert arrow_schema(gathered).equals(plain_arrow.schema(gathered))
    assert set(gathered) == set(plain_arrow.TYPES)


def test_the_words_of_a_message_are_columns() -> None:
    words = (
        "topic",
        "queue_id",
        "queue_offset",
        "physical_offset",
        "store_time",
        "born_time",
        "tags",
        "keys",
        "body",
    )
    assert set(words) <= set(COLUMNS)


def test_columns_come_in_the_order_asked() -> None:
    assert spark_schema(["body", "topic"]).fieldNames() == ["body", "topic"]


def test_a_schema_of_the_users_own_chooses_columns() -> None:
    assert columns_of(StructType().add("tags", StringType()).add("queue_offset", LongType())) == (
        "tags",
        "queue_offset",
    )


def test_an_unknown_column_is_refused() -> None:
    with pytest.raises(SettingsError, match="there is no column tag, use some of topic, broker"):
        columns_of(StructType().add("tag", StringType()))


def test_of_two_ids_the_one_that_is_meant_must_be_named() -> None:
    with pytest.raises(SettingsError, match=r"no column msg_id, use unique_id, .* or offset_id"):
        columns_of(StructType().add("msg_id", StringType()))


def test_another_type_is_refused() -> None:
    with pytest.raises(
        SettingsError, match="column queue_id is of type int, not bigint: cast it after reading"
    ):
        columns_of(StructType().add("queue_id", LongType()))


def test_the_column_of_errors_goes_with_the_one_that_it_is_about() -> None:
    assert columns_of(spark_schema(["body_error", "body"])) == ("body_error", "body")
    with pytest.raises(SettingsError, match="column body_error is about column body: name both, or neither"):
        columns_of(spark_schema(["body_error"]))
