import os
from pathlib import Path

import pytest
from tests.counted import CountedFiles

from cometmq.errors import SettingsError
from cometmq.format import layout
from cometmq.spark.files import patterns
from cometmq.spark.files.log_reader import LogReader
from cometmq.spark.files.patterns import matching
from cometmq.spark.files.remote import path_of
from cometmq.spark.options import ReadOptions

TREE = ("broker-a/store/x", "broker-b/store/x", "broker-b/other/x", "test/store/x", ".hidden/store/x")


@pytest.fixture(params=["local", "remote"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Provide a folder with TREE in it, on the disk or behind fsspec."""
    if request.param == "remote":
        CountedFiles.start({f"lake/{name}": b"" for name in TREE})
        return path_of("counted://lake")
    for name in TREE:
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.touch()
    return tmp_path


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("broker-?/store", ["broker-a/store", "broker-b/store"]),
        ("b*/[!s]*", ["broker-b/other"]),
        ("*/store", ["broker-a/store", "broker-b/store", "test/store"]),
        ("{broker-[ab],test}/store", ["broker-a/store", "broker-b/store", "test/store"]),
        ("broker-{a/store,b/{other,none}}", ["broker-a/store", "broker-b/other"]),
        (".h*/store", [".hidden/store"]),
        ("broker-a/store/*", ["broker-a/store/x"]),
        ("nowhere", ["nowhere"]),
    ],
)
def test_a_pattern_stands_for_what_matches_it(root: Path, pattern: str, expected: list[str]) -> None:
    assert [one.path for one in matching(root / pattern)] == [root / name for name in expected]


def test_what_cannot_be_matched_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for pattern in ("nothing-*", "broker-a/store/x/*", "{none,nothing}", "{broker-a"):
        with pytest.raises(SettingsError, match="nothing matches this pattern"):
            matching(root / pattern)
    with pytest.raises(SettingsError, match=r"cannot hold \*\*, give \* for each folder"):
        matching(root / "**" / "store")
    monkeypatch.setattr(patterns, "ALTERNATIVES_MAX", 7)
    with pytest.raises(SettingsError, match="the braces stand for more than 7 paths"):
        matching(root / "{a,b}{a,b}{a,b}")


def test_a_name_with_signs_stands_for_itself_if_it_is_there(tmp_path: Path) -> None:
    (tmp_path / "all*" / "store").mkdir(parents=True)
    assert [one.path for one in matching(tmp_path / "all*")] == [tmp_path / "all*"]
    assert [one.path for one in matching(tmp_path / "?ll*" / "store")] == [tmp_path / "all*" / "store"]


def test_a_relative_pattern_stays_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broker-a").mkdir()
    monkeypatch.chdir(tmp_path)
    assert [one.path for one in matching(Path("broker-*"))] == [Path("broker-a")]


def test_files_that_a_pattern_names_are_planned_on_its_listing() -> None:
    names = [layout.offset_name(number << 30) for number in range(2_500)]
    CountedFiles.start({f"lake/store/commitlog/{name}": 1 << 30 for name in names})
    path = path_of("counted://lake/store/commitlog/*")
    planned = LogReader(ReadOptions((path,), bytes_per_partition=1 << 30), ("topic",)).partitions()
    assert len(planned) == 2_500
    assert CountedFiles.requests.total() < 10


def test_stores_by_a_pattern_of_which_one_is_empty(tmp_path: Path) -> None:
    for name, signs in (("broker-a", ("checkpoint", "lock")), ("broker-b", ("commitlog/" + "0" * 20,))):
        for sign in signs:
            path = tmp_path / name / "store" / sign
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(os.urandom(5_000))
    reader = LogReader(ReadOptions((tmp_path / "broker-*" / "store",)), ("topic",))
    assert len(reader.partitions()) == 1
