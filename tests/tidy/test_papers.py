"""The papers and the docstrings name only files that there are, and each package has a page.

The papers are ARCHITECTURE.md, CONTRIBUTING.md, ``docs/change.md`` and ``docs/internals/``.
"""

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
PACKAGE: Final = ROOT / "src" / "cometmq"
ARCHITECTURE: Final = ROOT / "ARCHITECTURE.md"
CHANGE: Final = ROOT / "docs" / "change.md"
INTERNALS: Final = ROOT / "docs" / "internals"
PAPERS: Final = [ARCHITECTURE, ROOT / "CONTRIBUTING.md", CHANGE, *sorted(INTERNALS.glob("*.md"))]
LINES_MAX: Final = 160
LINE_LENGTH_MAX: Final = 120

FILE: Final = re.compile(r"`([\w.*-]+(?:/[\w.*-]+)*(?:\.(?:py|md|proto|lark|toml|css|tgz|java)|/))`")
"""A file or a folder in a text; a folder ends in a slash."""
PAGE: Final = re.compile(r"``(docs/\S+\.md)``")
PACKAGES: Final = re.compile(r"^Packages: (.+)$", re.MULTILINE)
HEADING: Final = re.compile(r"^## (.+)$", re.MULTILINE)
MAP_ROW: Final = re.compile(r"^\| (\d+) \| (?:\[(\w+)\]|`(\w+)\.py`|modules)", re.MULTILINE)

OF_A_STORE: Final = re.compile(
    r"^(?:setaside|commitlog|consumequeue|index|config|rebuild|timerlog|\.deleted)/"
)
"""Folders of a store directory, which look like our own."""


def docstrings(path: Path) -> Iterator[str]:
    """Iterate over the docstrings of a file; of one that names no file there are none."""
    text = path.read_text()
    for node in ast.walk(ast.parse(text if FILE.search(text) else "")):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""


def is_there(name: str, places: Iterable[Path]) -> bool:
    """Check whether a file or folder of a name, or one that matches a pattern, is in one of the places."""
    if "*" in name:
        return any(next(place.glob(name), None) is not None for place in places)
    return any((place / name).exists() for place in places)


def missing_in_docstring(path: Path, text: str) -> list[str]:
    """Return the files that a docstring names and that are neither beside it, above it nor in the project.

    Folders are left out, since most are those of a store, and Java files, which are RocketMQ's.
    """
    places = [*(folder for folder in path.parents if PACKAGE in (folder, *folder.parents)), ROOT]
    names = [name for name in FILE.findall(text) if not name.endswith(("/", ".java"))]
    return [name for name in names if not is_there(name, places)]


def missing_in_paper(text: str) -> list[str]:
    """Return the files that a paper names and that are not there.

    A name without a folder counts from the folders that its paragraph, or row of a table, has named before.
    """
    missing: list[str] = []
    for paragraph in re.split(r"\n\n|\n(?=[|*])", text):
        places = [PACKAGE, ROOT]
        for name in FILE.findall(paragraph):
            if OF_A_STORE.match(name):
                continue
            if not is_there(name, places):
                missing.append(name)
            places += [(base / name).parent if not name.endswith("/") else base / name for base in places[:2]]
    return missing


def pages_by_package() -> dict[str, str]:
    """Return the page that each package's docstring names, by the package's name."""
    found = {}
    for path in PACKAGE.glob("**/__init__.py"):
        name = ".".join(path.parent.relative_to(PACKAGE).parts)
        pages = [one for one in PAGE.findall(next(docstrings(path))) if one.startswith("docs/internals/")]
        if name and pages:
            found[name] = pages[-1]
    return found


def layers() -> list[set[str]]:
    """Return the layers of pyproject.toml, the lowest first."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    whole = next(one for one in contracts if one["type"] == "layers" and one["containers"] == ["cometmq"])
    return [set(re.findall(r"\w+", layer)) for layer in reversed(whole["layers"])]


def map_rows() -> list[tuple[int, str]]:
    """Return layer and name of the map's rows; the row of the root's modules has no name."""
    found = MAP_ROW.findall(ARCHITECTURE.read_text())
    return [(int(layer), package or module) for layer, package, module in found]


def test_docstrings_name_files_that_there_are() -> None:
    missing = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for text in docstrings(path)
        for name in missing_in_docstring(path, text)
    ]
    assert missing == []


@pytest.mark.parametrize("paper", PAPERS, ids=lambda path: path.name)
def test_papers_name_files_that_there_are(paper: Path) -> None:
    assert missing_in_paper(paper.read_text()) == []


def test_a_file_that_is_gone_is_noticed() -> None:
    text = "``tls/server.py``, ``turn.py``, ``errors.py``, ``gone.py``"
    assert missing_in_docstring(PACKAGE / "net" / "accepting.py", text) == ["gone.py"]
    paper = "`net/tls/server.py`, `pem.py`, `gone.py`\n\n| `pem.py` |\n| `io/`, `files.py`, `commitlog/` |"
    assert missing_in_paper(paper) == ["gone.py", "pem.py"]


def test_each_package_names_its_page_and_the_page_names_the_package() -> None:
    named = pages_by_package()
    top = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert top - named.keys() == set(), "the docstring of __init__.py names a page in docs/internals"
    listed = {
        package: page.relative_to(ROOT).as_posix()
        for page in INTERNALS.glob("*.md")
        for line in PACKAGES.findall(page.read_text())
        for package in re.findall(r"`([\w.]+)`", line)
    }
    assert named == listed


def test_the_map_has_each_package_in_its_layer() -> None:
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")} | {"blocking"}
    rows = [(layer, name) for layer, name in map_rows() if name]
    assert sorted(name for _, name in rows) == sorted(packages)
    of_packages = [layer & packages for layer in layers() if layer & packages]
    by_number = [{name for number, name in rows if number == layer} for layer in range(len(of_packages))]
    assert by_number == of_packages


def test_what_to_change_where_is_sorted_as_the_map() -> None:
    headings = HEADING.findall(CHANGE.read_text())
    order = [name for _, name in map_rows() if name != "blocking"]
    assert headings[0] == "Usual errands"
    assert headings[1:-1] == ["Modules of the root", *filter(None, order)]


def test_the_architecture_fits_a_head() -> None:
    lines = ARCHITECTURE.read_text().splitlines()
    assert len(lines) <= LINES_MAX
    assert [line for line in lines if len(line) > LINE_LENGTH_MAX] == []
