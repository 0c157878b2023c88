"""The site leaves nothing out: each page is in a table of contents, each public name in the reference.

Whether it can be built is for ``make docs`` to tell.
"""

import pkgutil
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from tests.kit.pages import PAGES, README, ROOT

from cometmq import admin

DOCS = ROOT / "docs"
TOCTREE = re.compile(r"^:::\{toctree\}\n(.*?)^:::$", re.MULTILINE | re.DOTALL)
DOCUMENTED = re.compile(r"^\.\. auto(?:module|class|exception|function):: (\S+)$", re.MULTILINE)
PUBLIC = [
    "cometmq",
    "cometmq.blocking",
    "cometmq.client",
    "cometmq.store",
    "cometmq.testing",
    "cometmq.spark",
]


def entries(page: Path) -> Iterator[Path]:
    """Yield the pages of a page's tables of contents."""
    for table in TOCTREE.findall(page.read_text()):
        for line in table.splitlines():
            if line and not line.startswith(":"):
                yield from page.parent.glob(f"{line}.md")


def reached_from(page: Path) -> set[Path]:
    """Return a page, and those that its tables of contents lead to."""
    return {page}.union(*(reached_from(entry) for entry in entries(page)))


def public_names(module: ModuleType) -> list[str]:
    """Return the names that a module offers: those it lists, else those that it makes and are not private."""
    made = (
        name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__
    )
    return list(getattr(module, "__all__", ())) or [name for name in made if not name.startswith("_")]


@pytest.fixture(scope="module")
def documented() -> set[object]:
    """Provide what the reference describes; each name in it must stand for something."""
    pages = "\n".join(page.read_text() for page in (DOCS / "reference").glob("*.md"))
    found = {pkgutil.resolve_name(name) for name in DOCUMENTED.findall(pages)}
    modules = [value for value in found if isinstance(value, ModuleType)]
    return found | {getattr(module, name) for module in modules for name in public_names(module)}


def test_each_page_is_in_a_table_of_contents() -> None:
    assert sorted(reached_from(DOCS / "index.md")) == [page for page in PAGES if page != README]


@pytest.mark.parametrize("module", PUBLIC)
def test_each_public_name_is_in_the_reference(module: str, documented: set[object]) -> None:
    package = import_module(module)
    assert [name for name in public_names(package) if getattr(package, name) not in documented] == []


def test_all_that_operators_can_do_is_in_the_reference(documented: set[object]) -> None:
    modules = [
        import_module(found.name) for found in pkgutil.iter_modules(admin.__path__, f"{admin.__name__}.")
    ]
    assert [module.__name__ for module in modules if module not in documented] == []
