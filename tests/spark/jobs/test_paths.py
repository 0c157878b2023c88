from pathlib import Path

from cometmq.spark.jobs.paths import spark_path


def test_names_are_given_as_they_are() -> None:
    assert spark_path(Path("/a b/log=1/100%")) == "file:///a b/log=1/100%"
