"""What is vendored is what its projects published, and its version is the one that is named."""

import re
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

VENDORED = Path(str(files("cometmq"))) / "vendored"
README = (VENDORED / "README.md").read_text()


def test_each_file_is_listed_with_its_digest() -> None:
    listed = re.findall(r"^([0-9a-f]{64})  (\S+)$", README, re.MULTILINE)
    there = sorted(path for path in VENDORED.rglob("*") if path.is_file() and path.name != "README.md")
    assert sorted(listed, key=lambda line: line[1]) == [
        (sha256(path.read_bytes()).hexdigest(), path.relative_to(VENDORED).as_posix()) for path in there
    ]


def test_the_version_of_uplot_is_the_one_that_its_file_says() -> None:
    (version,) = re.findall(r"uPlot \(v([\d.]+)\)", (VENDORED / "uplot" / "uPlot.iife.min.js").read_text())
    assert f"uPlot {version}," in README
