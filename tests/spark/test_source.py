import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from cometmq.errors import SettingsError
from cometmq.spark.source import RocketMQSource, is_live


@pytest.mark.parametrize(
    ("step", "unneeded"),
    [
        ("", {"cometmq.client", "cometmq.kernels", "numpy", "pyarrow", "asyncio"}),
        (
            "DefaultSource({'namesrv': 'a:1', 'subscribe': 't'}).schema()",
            {"cometmq.kernels", "numpy", "pyarrow"},
        ),
    ],
)
def test_a_step_of_a_plan_imports_what_it_needs(step: str, unneeded: set[str]) -> None:
    program = f"from pyspark_cometmq import DefaultSource; {step}\nimport sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert unneeded & set(done.stdout.split()) == set()


def test_topics_are_only_added_to() -> None:
    source = RocketMQSource({"namesrv": "127.0.0.1:9876", "topic": "orders"})
    with pytest.raises(SettingsError, match="topics can only be added to"):
        source.writer(StructType([StructField("body", StringType())]), overwrite=True)


@pytest.mark.parametrize(
    ("options", "live"),
    [
        ({"NameSrv": "a:1"}, True),
        ({"path": "store"}, False),
        ({}, False),
        ({"spark.rocketmq.namesrv": "a:1"}, True),
        ({"spark.rocketmq.namesrv": "a:1", "PATH": "store"}, False),
        ({"spark.rocketmq.namesrv": "a:1", "path": "store", "namesrv": "a:1"}, True),
    ],
)
def test_a_read_is_one_of_topics_if_name_servers_are_given_or_are_the_sessions_and_no_path_is(
    options: dict[str, str], live: bool
) -> None:
    assert is_live(options) is live


def test_files_are_no_stream() -> None:
    with pytest.raises(SettingsError, match="option namesrv is missing: streams are read from live topics"):
        RocketMQSource({"path": "store"}).streamReader(StructType())


@pytest.mark.timeout(600)  # Spark's start, on a machine that is busy
def test_a_wrong_option_fails_before_anything_is_read(
    spark: SparkSession, golden: Mapping[str, Path]
) -> None:
    with pytest.raises(AnalysisException, match="option topics is not known: did you mean topic"):
        spark.read.format("rocketmq").option("topics", "GoldenA").load(str(golden["store-clean"]))


@pytest.mark.timeout(600)  # as above
def test_sql_reads_through_a_view_and_a_table_of_the_catalog_names_that_remedy(
    spark: SparkSession, golden: Mapping[str, Path]
) -> None:
    options = f"USING rocketmq OPTIONS (path '{golden['store-clean']}', topic 'GoldenA')"
    with pytest.raises(AnalysisException, match="use CREATE TEMPORARY VIEW"):
        spark.sql(f"CREATE TABLE golden {options}")
    spark.sql(f"CREATE TEMPORARY VIEW golden {options}")
    try:
        assert spark.sql("SELECT count(*) FROM golden").collect()[0][0] > 0
    finally:
        spark.catalog.dropTempView("golden")
