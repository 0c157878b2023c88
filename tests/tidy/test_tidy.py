"""The source's own rules, those that no linter knows. Each list of exceptions gives a reason per entry."""

import ast
import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.campaigns.__main__ import CAMPAIGNS

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "cometmq"
GENERATED = {PACKAGE / "proxy" / "messaging_pb2.py"}
"""What the build compiles: nobody reads it, and git leaves it out."""
SOURCES = sorted({*(ROOT / "src").rglob("*.py")} - GENERATED)
TESTS = sorted((ROOT / "tests").rglob("*.py"))
SCRIPTS = [
    *SOURCES,
    *TESTS,
    *sorted((ROOT / "benches").rglob("*.py")),
    *sorted((ROOT / "examples").glob("*.py")),
]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
TEXTS = [
    *SCRIPTS,
    *(ROOT / name for name in ("Makefile", "pyproject.toml", ".ci/run")),
    *PAGES,
]

LINES_MAX = 600
LONGER: dict[str, str] = {}
MODULES_MAX = 20
TARGETS_MAX = 14
SLEEPERS = {
    "tests/interop/grpc_clients/programs.py": "RocketMQ's client does not say when its proxy is back",
}
GUARDS_S = range(1, 60)
"""Waits that are too long to see that nothing comes, and too short for what must come on a slow machine."""
WAITS = {"asyncio.timeout": 0, "asyncio.wait_for": 1}
"""Which argument says for how long; of methods called ``wait`` and ``result`` it is the first."""
TESTED_ALONE_FROM = 61
"""Lines of a module from which it has a test file of its name; shorter ones may be tested with a user."""
NAMES_MAX = 12
LONG_IMPORTS = {
    "replication/controller/running.py": "the instructions it carries out; a life has their name",
}
PARTS = [f"broker/{folder}/parts.py" for folder in ("admin", "requests", "state")]
UNTESTED = {
    "errors.py": "declarations only; every raise is tested where it is raised",
    **dict.fromkeys(PARTS, "construction only: all of it is in each test of a broker"),
}


def names(files: list[Path]) -> list[str]:
    return [path.relative_to(ROOT).as_posix() for path in files]


def lines_that_match(pattern: str, files: list[Path]) -> list[str]:
    """Find every line that matches, as ``file:line``."""
    search = re.compile(pattern).search
    return [
        f"{path.relative_to(ROOT)}:{number}"
        for path in files
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if search(line)
    ]


class Facts(NamedTuple):
    """What is known of all scripts by their syntax: each is parsed once, for that takes seconds."""

    classes: list[tuple[Path, str]]
    calls: list[tuple[Path, int, str]]
    waits: list[tuple[Path, int, float]]
    broad_handlers: list[tuple[Path, int]]


@pytest.fixture(scope="module")
def facts() -> Facts:
    found = Facts([], [], [], [])
    for path in SCRIPTS:
        tree = ast.parse(path.read_text())
        numbers = dict(filter(None, map(named_number, tree.body)))
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found.classes.append((path, node.name))
            elif isinstance(node, ast.Call):
                found.calls.append((path, node.lineno, dotted(node.func)))
                if (seconds := waited_s(node, numbers)) is not None:
                    found.waits.append((path, node.lineno, seconds))
            elif isinstance(node, ast.ExceptHandler) and is_broad(node):
                found.broad_handlers.append((path, node.lineno))
    return found


def dotted(called: ast.expr) -> str:
    """Return what is called as it is written, if that is a name, or names with dots between."""
    if isinstance(called, ast.Attribute):
        return f"{dotted(called.value)}.{called.attr}"
    return called.id if isinstance(called, ast.Name) else ""


def named_number(statement: ast.stmt) -> tuple[str, float] | None:
    """Return name and value if a statement gives a number a name."""
    match statement:
        case (
            ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=int() | float() as value))
            | ast.AnnAssign(target=ast.Name(id=name), value=ast.Constant(value=int() | float() as value))
        ):
            return name, value
    return None


def waited_s(call: ast.Call, numbers: dict[str, float]) -> float | None:
    """Return how long a call waits at most, if that is a number, or the name of one in its file."""
    name = dotted(call.func)
    place = WAITS.get(name, 0 if name.endswith((".wait", ".result")) else None)
    if place is None:
        return None
    given = [*call.args[place : place + 1], *(one.value for one in call.keywords if one.arg == "timeout")]
    match given:
        case [ast.Constant(value=int() | float() as value)]:
            return value
        case [ast.Name(id=name)]:
            return numbers.get(name)
    return None


def test_no_source_file_is_too_long_to_read_at_once() -> None:
    lengths = {
        path.relative_to(ROOT / "src").as_posix(): len(path.read_text().splitlines()) for path in SOURCES
    }
    assert {
        name: length for name, length in lengths.items() if length > LINES_MAX and name not in LONGER
    } == {}
    assert {name for name in LONGER if lengths.get(name, 0) <= LINES_MAX} == set(), "no longer an exception"


def test_names_say_what_a_thing_is(facts: Facts) -> None:
    banned = re.compile(r"(Manager|Service|Impl|Utils?|Helpers?)(?![a-z])", re.IGNORECASE)
    assert [f"{path.relative_to(ROOT)}: {name}" for path, name in facts.classes if banned.search(name)] == []
    assert [path for path in SCRIPTS if banned.search(path.stem)] == []


def test_nothing_is_left_for_later() -> None:
    assert lines_that_match(r"\b(TO[D]O|FIX[M]E|X[X]X)\b", TEXTS) == []


def test_no_class_reads_its_annotations_while_it_is_made() -> None:
    """From Python 3.14 on they are there afterwards only."""
    assert lines_that_match(r"(?<![.\w])__annotations__", SOURCES) == []


def test_nobody_sleeps_where_an_event_would_do(facts: Facts) -> None:
    judged = {*SOURCES, *TESTS}
    sleepers = {
        path.relative_to(ROOT).as_posix()
        for path, _, name in facts.calls
        if path in judged and name in {"time.sleep", "sleep"}
    }
    assert sleepers == set(SLEEPERS)


def test_tests_wait_so_long_that_only_a_fault_makes_it_longer(facts: Facts) -> None:
    short = [
        f"{path.relative_to(ROOT)}:{line}: {seconds} s"
        for path, line, seconds in facts.waits
        if path in TESTS and GUARDS_S.start <= seconds < GUARDS_S.stop
    ]
    assert short == []


def test_arguments_are_given_one_by_one() -> None:
    """Not as ``*(a, b, c)``, which has the formatter keep them on one line and the reader count them."""
    unpacked = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and any(isinstance(one, ast.Starred) and isinstance(one.value, ast.Tuple) for one in node.args)
    ]
    assert unpacked == []


def test_where_many_names_are_needed_their_module_is_imported() -> None:
    """As ``h`` of ``headers``; the ``__init__`` of a package lists what it exports."""
    long = {
        path.relative_to(PACKAGE).as_posix()
        for path in SOURCES
        if path.name != "__init__.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and len(node.names) > NAMES_MAX
    }
    assert long - set(LONG_IMPORTS) == set()
    assert set(LONG_IMPORTS) - long == set(), "no longer an exception"


def test_a_broad_except_gives_its_reason(facts: Facts) -> None:
    unexplained = [
        f"{path.relative_to(ROOT)}:{line}"
        for path, line in facts.broad_handlers
        if "#" not in path.read_text().splitlines()[line - 1]
    ]
    assert unexplained == []


def is_broad(handler: ast.ExceptHandler) -> bool:
    """Return whether a handler swallows any exception: one that ends in a bare ``raise`` swallows none."""
    last = handler.body[-1]
    if isinstance(last, ast.Raise) and last.exc is None:
        return False
    return handler.type is None or ast.unparse(handler.type) in {"Exception", "BaseException"}


def test_an_ignored_warning_gives_its_code_and_its_reason() -> None:
    ignored = re.compile(r"#\s*(noqa|type:\s*ignore)")
    explained = re.compile(r"#\s*(noqa: [A-Z]+\d+(, ?[A-Z]+\d+)*|type: ignore\[[\w-]+(, ?[\w-]+)*\])\s+\S+")
    unexplained = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in SCRIPTS
        if path != Path(__file__)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if ignored.search(line) and not explained.search(line)
    ]
    assert unexplained == []


def test_no_text_names_a_folder_of_one_machine() -> None:
    assert lines_that_match(r"""(?:^|[\s"'=(`:])/(?:work|root|home|Users|opt|usr|mnt|data)/""", TEXTS) == []


def test_no_helper_is_taken_from_a_test_module() -> None:
    """So that a test can be moved, and renamed: what tests share is in ``tests/kit`` and in ``conftest``."""
    assert lines_that_match(r"^\s*from tests(\.\w+)*\.test_\w+ import", SCRIPTS) == []


def test_each_package_says_what_it_is() -> None:
    silent = [
        path
        for path in SOURCES
        if path.name == "__init__.py" and not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert names(silent) == []


def test_each_module_of_some_length_has_a_test_of_its_name() -> None:
    modules = {
        path.relative_to(PACKAGE)
        for path in SOURCES
        if PACKAGE in path.parents
        and not path.name.startswith("__")
        and len(path.read_text().splitlines()) >= TESTED_ALONE_FROM
    }
    untested = {
        module.as_posix()
        for module in modules
        if not any(
            (ROOT / "tests" / module.parent / f"test_{module.stem}{kind}.py").exists()
            for kind in ("", "_end_to_end")
        )
    }
    assert sorted(untested - set(UNTESTED)) == []
    assert set(UNTESTED) - untested == set(), "no longer an exception"


def test_no_folder_holds_more_modules_than_a_reader_keeps_apart() -> None:
    counts = Counter(path.parent for path in SOURCES if path.name != "__init__.py")
    assert [path.relative_to(ROOT) for path, count in counts.items() if count > MODULES_MAX] == []


def test_only_the_command_line_prints(facts: Facts) -> None:
    judged = {path for path in SOURCES if PACKAGE / "cli" not in path.parents}
    printers = [
        f"{path.relative_to(ROOT)}:{line}"
        for path, line, name in facts.calls
        if path in judged and name == "print"
    ]
    assert printers == []


@pytest.mark.parametrize("page", names(PAGES))
def test_each_make_command_in_the_pages_exists(page: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    mentioned = set(re.findall(r"(?:^|`)make ([a-z-]+)", (ROOT / page).read_text(), re.MULTILINE))
    assert mentioned - targets == set()


def test_each_of_the_few_make_targets_says_what_it_is_for() -> None:
    targets = re.findall(r"^([a-z-]+):(.*)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert [name for name, rest in targets if " ## " not in rest] == []
    assert len(targets) <= TARGETS_MAX


def test_each_campaign_that_the_pages_name_exists() -> None:
    texts = [path.read_text() for path in PAGES if path.name != "CHANGELOG.md"]
    found = r"make campaign\s+NAME=([a-z-]+)|tests\.campaigns\s+([a-z][a-z-]*)"
    mentioned = {name or other for text in texts for name, other in re.findall(found, text)}
    assert mentioned - set(CAMPAIGNS) == set()
