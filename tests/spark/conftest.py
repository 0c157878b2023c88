"""One Spark for all tests: it takes seconds to start."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cometmq.spark import session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Give a session on two threads of this machine."""
    work_dir: Path = tmp_path_factory.mktemp("spark")
    with session("local[2]", "tests", work_dir=work_dir, conf={"spark.sql.shuffle.partitions": "2"}) as spark:
        yield spark
