"""The daemon of a session's workers."""

import sys
from typing import Any

from pyspark.sql import SparkSession

from cometmq.spark.worker import DAEMON


def test_forks_the_workers_of_tasks(spark: SparkSession) -> None:
    def main_module(_: Any) -> str:
        return str(sys.modules["__main__"].__spec__)

    (spec,) = spark.sparkContext.range(1).map(main_module).collect()
    assert f"'{DAEMON}'" in spec
