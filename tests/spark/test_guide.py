"""The guide's code runs, in the session of all Spark tests: a session of its own would take long."""

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.docs.test_pages import NAME_SERVER, ROOT, blocks_of
from tests.live import in_thread


@pytest.mark.timeout(600)
def test_what_the_guide_shows_is_what_happens(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert spark.sparkContext.master == "local[2]"  # the one that the page's session() finds
    page = (ROOT / "docs" / "guide" / "spark.md").read_text()
    names: dict[str, object] = {"__name__": "page"}
    with in_thread(tmp_path / "store") as live:
        for block in blocks_of(page):
            code = block.code.replace(NAME_SERVER, live.name_server)
            code = re.sub(r'"lake/', f'"{tmp_path}/lake/', code)  # Spark's Java has a directory of its own
            exec(compile(code, f"the block at line {block.line}", "exec"), names)
            printed = capsys.readouterr().out
            assert block.printed in (None, printed), f"line {block.line}"
