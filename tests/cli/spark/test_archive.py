from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run

from cometmq.spark.jobs.export.archive import Archived


def test_it_tells_what_was_archived_and_what_was_not(
    cometmq: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[Any] = []

    def archive(_: object, store: Path, target: Path, *, broker: str | None, progress: object) -> Archived:
        asked.append((store, target, broker, callable(progress)))
        return Archived(files=2, messages=7, end=4096, damages=1, missing=64)

    monkeypatch.setattr("cometmq.cli.spark.archive.start_spark", lambda _: None)
    monkeypatch.setattr("cometmq.spark.jobs.export.archive.archive", archive)
    command = ["spark", "archive", "a/store", str(tmp_path)]
    assert cometmq(*command).out.splitlines() == [
        "lost: 64 bytes of log were removed before they were archived",
        "damaged: 1 stretches of the log are not messages",
        f"{tmp_path}: 7 messages of 2 files, up to offset 4096",
    ]
    (value,) = cometmq(*command, "--json", "--broker", "a").values
    assert (value["path"], value["files"], value["end"]) == ("a/store", 2, 4096)
    assert asked == [(Path("a/store"), tmp_path, broker, True) for broker in (None, "a")]
    ran = cometmq("spark", "archive", "s3://lake/store", "s3://lake/archive")
    assert ran.out.splitlines()[-1].startswith("s3://lake/archive: 7 messages")
