"""Files that import each other in a circle: none when they are loaded, and few for their types only."""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
FILES = {
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): path
    for path in SOURCE.rglob("*.py")
}
KNOWN = {
    "cometmq.errors": "errors hold the message and the results that they are about",
}
"""Of each circle for types one file, and the reason."""


def is_for_types(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def imports(body: list[ast.stmt], *, with_types: bool) -> Iterator[ast.Import | ast.ImportFrom]:
    """Find the imports that run when a module is loaded, and with types those of a type checker."""
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If | ast.Try) and (with_types or not is_for_types(node)):
            yield from imports(node.body, with_types=with_types)


def imported(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    for alias in node.names:
        names = [alias.name] if isinstance(node, ast.Import) else [f"{node.module}.{alias.name}", node.module]
        yield from [name for name in names if name in FILES][:1]


@cache
def graph(*, with_types: bool) -> Mapping[str, set[str]]:
    found: dict[str, set[str]] = {}
    for name, path in FILES.items():
        nodes = imports(ast.parse(path.read_text()).body, with_types=with_types)
        found[name] = {other for node in nodes for other in imported(node)} - {name}
    return found


def reached(graph: Mapping[str, set[str]], begin: str) -> set[str]:
    found: set[str] = set()
    waiting = [begin]
    while waiting:
        new = graph[waiting.pop()] - found
        found |= new
        waiting += new
    return found


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the files of each circle, and of circles that touch together."""
    reach = {name: reached(graph, name) for name in graph}
    found = {
        frozenset(other for other in reach[name] if name in reach[other])
        for name in graph
        if name in reach[name]
    }
    return sorted(sorted(circle) for circle in found)


def test_circles_are_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [["b", "c"]]


def test_no_files_are_loaded_in_a_circle() -> None:
    assert circles(graph(with_types=False)) == []


def test_only_known_files_are_in_a_circle_for_their_types() -> None:
    found = circles(graph(with_types=True))
    assert [circle for circle in found if not KNOWN.keys() & set(circle)] == []
    assert len(found) == len(KNOWN), "a circle is mended, or there are two of one reason: mend KNOWN"
