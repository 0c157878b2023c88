"""Which Python Spark starts."""

import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark import SparkContext

from cometmq.spark.interpreter import DRIVER, SUBMITTED, WORKERS, choose
from cometmq.spark.java import find_java, prepare_java_home

PLAIN_SESSION = """
import sys
import cometmq.spark
from pyspark.sql import SparkSession

local = {f"spark.driver.{name}": "127.0.0.1" for name in ("bindAddress", "host")}
builder = SparkSession.builder.master("local[1]").config(map=local | {"spark.ui.enabled": "false"})
spark = builder.getOrCreate()
print(spark.read.format("rocketmq").load(sys.argv[1]).count())
"""


@pytest.fixture(autouse=True)
def no_java_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkContext, "_gateway", None)


def test_it_is_this_one_if_nobody_has_chosen() -> None:
    environment = {"PATH": os.defpath}
    choose(environment)
    assert environment == {"PATH": os.defpath, WORKERS: sys.executable}


@pytest.mark.parametrize("name", [WORKERS, DRIVER, SUBMITTED])
def test_who_has_chosen_keeps_his_choice(name: str) -> None:
    environment = {name: "another"}
    choose(environment)
    assert environment == {name: "another"}


def test_a_session_from_before_the_import_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(SparkContext, "_gateway", object())
    other = tmp_path / "python3"
    other.touch(0o755)
    environment = {"PATH": str(tmp_path)}
    with caplog.at_level(logging.WARNING):
        choose(environment)
    assert environment == {"PATH": str(tmp_path)}
    (record,) = caplog.records
    assert str(other) in record.getMessage() and f"set {WORKERS}" in record.getMessage()


def test_a_session_from_before_the_import_that_uses_this_python_is_not(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(SparkContext, "_gateway", object())
    assert (Path(sys.executable).parent / "python3").exists()
    choose({"PATH": str(Path(sys.executable).parent)})
    assert caplog.records == []


@pytest.mark.timeout(600)  # Java and Spark are started for it alone, which takes most of ten seconds
def test_a_session_of_spark_s_own_finds_the_source_where_path_has_another_python(
    golden: Mapping[str, Path], tmp_path: Path
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("bash", "dirname", "env", "rm", "sh"):
        (tools / name).symlink_to(shutil.which(name) or name)
    other = tools / "python3"  # has the standard library alone
    other.write_text(f'#!/bin/sh\nexec {os.path.realpath(sys.executable)} -S "$@"\n')
    other.chmod(0o755)
    inherited = {name: value for name, value in os.environ.items() if name not in (WORKERS, DRIVER)}
    ran = subprocess.run(
        [sys.executable, "-c", PLAIN_SESSION, str(golden["store-killed"])],
        env={**inherited, "PATH": str(tools), "JAVA_HOME": str(prepare_java_home(find_java(), tmp_path))},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) > 500
