import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cometmq.spark import session

READ_A_STORE = """
import sys
from pathlib import Path
from cometmq.spark import session

print(session("local[2]", work_dir=Path("work")).read.format("rocketmq").load(sys.argv[1]).count())
"""


def test_runs_on_this_interpreter_and_in_utc(spark: SparkSession) -> None:
    assert spark.sparkContext.pythonExec == sys.executable
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.driver.host") == "127.0.0.1"


def test_the_environment_is_left_as_it_was(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    before = dict(os.environ)
    assert session() is spark
    assert dict(os.environ) == before


def test_a_second_call_gives_the_same_session_and_leaves_its_settings(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.session.timeZone", "Asia/Shanghai")
    again = session(conf={"spark.sql.ansi.enabled": "true"})
    assert again.sparkContext is spark.sparkContext
    assert again.conf.get("spark.sql.session.timeZone") == "Asia/Shanghai"
    spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_starts_without_java_on_path_and_leaves_no_file(golden: Mapping[str, Path], tmp_path: Path) -> None:
    tools, temporary = tmp_path / "tools", tmp_path / "temporary"
    tools.mkdir()
    temporary.mkdir()
    for name in ("bash", "dirname", "env", "sh"):
        (tools / name).symlink_to(shutil.which(name) or name)
    answer = subprocess.run(
        [sys.executable, "-c", READ_A_STORE, str(golden["store-killed"])],
        env={"PATH": str(tools), "TMPDIR": str(temporary), "HOME": str(tmp_path)},
        cwd=temporary,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert answer.returncode == 0, answer.stderr
    assert int(answer.stdout) > 500
    assert "Traceback" not in answer.stderr
    assert [path.relative_to(temporary).as_posix() for path in temporary.rglob("*")] == ["work"]
