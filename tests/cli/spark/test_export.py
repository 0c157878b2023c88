from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.cli.conftest import Run

from cometmq.spark.jobs.export.export import Exported

pytestmark = pytest.mark.timeout(600)  # Spark's start and first tasks, on a machine that is busy


def test_it_tells_how_many_messages_of_each_topic_are_new(
    cometmq: Run, spark: SparkSession, golden: Mapping[str, Path], tmp_path: Path
) -> None:
    command = ["spark", "export", str(golden["store-clean"]), str(tmp_path / "target"), "--topic", "GoldenA"]
    ran = cometmq(*command, "--column", "tags", "--master", spark.sparkContext.master)
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert lines[0].startswith("GoldenA: ") and " new messages, from offset 0 to " in lines[1]
    assert cometmq("spark", "export", str(tmp_path), str(tmp_path / "other")).failed(2, "holds no CommitLog")


def test_what_is_asked_for_arrives(cometmq: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[Any] = []

    def export(_: object, store: Path, target: Path, **options: Any) -> Exported:
        asked.append((store, target, options["as_delta"], options["broker"]))
        return Exported(begin=5, next=9, messages={}, missing=64)

    monkeypatch.setattr("cometmq.cli.spark.export.start_spark", lambda _: None)
    monkeypatch.setattr("cometmq.spark.jobs.export.export.export", export)
    ran = cometmq("spark", "export", "a/store", str(tmp_path), "--format", "delta", "--broker", "a")
    assert ran.out.splitlines() == [
        "lost: 64 bytes of log were removed before they were exported",
        f"{tmp_path}: 0 new messages, from offset 5 to 9",
    ]
    (value,) = cometmq("spark", "export", "a/store", str(tmp_path), "--json").values
    assert (value["begin"], value["next"]) == (5, 9)
    places = (Path("a/store"), tmp_path)
    assert asked == [(*places, True, "a"), (*places, False, None)]


def test_a_target_may_be_an_address_and_delta_have_options(
    cometmq: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def export(_: object, store: Path, target: Path, **options: Any) -> Exported:
        asked.append((store, target, options["as_delta"]))
        return Exported(begin=5, next=9, messages={})

    monkeypatch.setattr("cometmq.cli.spark.export.start_spark", lambda _: None)
    monkeypatch.setattr("cometmq.spark.jobs.export.export.export", export)
    command = ("spark", "export", "s3://lake/store", "s3://lake/table")
    delta = (*command, "--format", "delta")
    ran = cometmq(*delta, "--storage-option", "AWS_REGION=eu-west-1", "--storage-option", "a=b=c")
    assert ran.out == "s3://lake/table: 0 new messages, from offset 5 to 9\n"
    assert asked == [
        (Path("s3:/lake/store"), Path("s3:/lake/table"), {"AWS_REGION": "eu-west-1", "a": "b=c"})
    ]
    (value,) = cometmq(*command, "--json").values
    assert (value["path"], value["target"]) == command[2:]
    assert cometmq(*delta, "--storage-option", "AWS_REGION").failed(2, "write NAME=VALUE")
    assert cometmq(*command, "--storage-option", "a=b").failed(2, "is for --format delta")
