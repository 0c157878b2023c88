"""The words of the code: how docstrings begin, what classes are called, how long signatures are."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import pytest

ROOT: Final = Path(__file__).parents[2]
PACKAGE: Final = ROOT / "src" / "cometmq"

ALL_PURPOSE: Final = {
    *("Do", "Does", "Get", "Gets", "Give", "Gives", "Go", "Goes", "Has", "Have", "Let", "Lets"),
    *("Make", "Makes", "Note", "Notes", "Put", "Puts", "Say", "Says", "See"),
    *("Take", "Takes", "Tell", "Tells"),
}
"""Verbs that fit anything, where Return, Build, Find, Decode, Check, Wait for or Send would say more."""
ALLOWED_OPENINGS: Final = {"Do nothing": "there is no plainer way to say it"}

PARAMETERS_MAX: Final = 8
COMPILED_PARAMETERS_MAX: Final = 12
"""Of a function that is compiled, or declared by the protocol of one: Numba passes no structs."""
COMPILING: Final = {"kernel", "inlined", "array_maker"}

_OPTIONS = "one parameter for each option of the command"
_CLIENT = "one keyword for each option of the client: its public signature"
_JOB = "source, target and one parameter for each option of the job, for programs"
LONG_SIGNATURES: Final = {
    "format/record.py: encode_fields": "the fields of a record: an append must not build a tuple first",
    "client/consumer/consumer.py: Consumer.__init__": _CLIENT,
    "client/consumer/lite_pull.py: LitePullConsumer.__init__": _CLIENT,
    "client/consumer/simple.py: SimpleConsumer.__init__": _CLIENT,
    "client/producer/producer.py: Producer.__init__": _CLIENT,
    "namesrv/name_server.py: NameServer.__init__": "one keyword for each option of a program's name server",
    "cli/consume.py: consume": _OPTIONS,
    "cli/serve/commands.py: dev": _OPTIONS,
    "cli/serve/console.py: console": _OPTIONS,
    "cli/spark/export.py: export": _OPTIONS,
    "cli/spark/find.py: find": _OPTIONS,
    "cli/spark/replay.py: replay": _OPTIONS,
    "cli/store/find.py: find": _OPTIONS,
    "cli/topic_shrink.py: shrink": _OPTIONS,
    "spark/jobs/export/export.py: export": _JOB,
    "spark/jobs/replay.py: replay": _JOB,
}

FOR_THREADS = "blocking.py has the client of this name for programs without asyncio"
SAME_THING: Final = {
    "Consumer": FOR_THREADS,
    "LitePullConsumer": FOR_THREADS,
    "Producer": FOR_THREADS,
    "PullConsumer": FOR_THREADS,
    "SimpleConsumer": FOR_THREADS,
    "TransactionProducer": FOR_THREADS,
}

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


class Definition(NamedTuple):
    """A module, class or function: the names it is within and its own, joined by dots, and its syntax."""

    module: str
    name: str
    node: ast.Module | ast.ClassDef | Function

    @property
    def place(self) -> str:
        return f"{self.module}: {self.name}" if self.name else self.module


def definitions(module: str, node: ast.AST, within: str = "") -> Iterator[Definition]:
    """Iterate over a node's definitions, the inner ones too."""
    name = within
    if isinstance(node, ast.Module):
        yield Definition(module, within, node)
    elif isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        name = f"{within}.{node.name}" if within else node.name
        yield Definition(module, name, node)
    for child in ast.iter_child_nodes(node):
        yield from definitions(module, child, name)


def definitions_below(folder: Path) -> list[Definition]:
    """Return the definitions of all modules below a folder."""
    return [
        definition
        for path in sorted(folder.rglob("*.py"))
        for definition in definitions(path.relative_to(folder).as_posix(), ast.parse(path.read_text()))
    ]


@pytest.fixture(scope="module")
def found() -> list[Definition]:
    return definitions_below(PACKAGE)


def opening(docstring: str) -> str:
    """Return the all-purpose verb that a docstring opens with, or nothing."""
    first = docstring.partition(" ")[0].rstrip(".,:")
    return first if first in ALL_PURPOSE and not docstring.startswith(tuple(ALLOWED_OPENINGS)) else ""


def parameter_count(function: Function) -> int:
    """Return how many parameters a function has, besides ``self`` or ``cls``."""
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    own = named[1:] if named and named[0].arg in {"self", "cls"} else named
    return len(own) + (arguments.vararg is not None) + (arguments.kwarg is not None)


def is_compiled(definition: Definition) -> bool:
    """Return whether Numba compiles a function, or a protocol of the kernels declares it."""
    assert isinstance(definition.node, Function)
    if definition.module.startswith("kernels/") and definition.name.partition(".")[0].endswith("Ops"):
        return True
    called = [one.func if isinstance(one, ast.Call) else one for one in definition.node.decorator_list]
    return any(isinstance(one, ast.Name) and one.id in COMPILING for one in called)


@pytest.mark.parametrize("folder", ["src", "tests", "benches", "examples"])
def test_a_docstring_opens_with_a_verb_that_says_what_is_done(folder: str) -> None:
    docstrings = ((one.place, ast.get_docstring(one.node)) for one in definitions_below(ROOT / folder))
    assert [f"{place}: {text}" for place, text in docstrings if text and opening(text)] == []


def test_the_openings_are_judged_by_their_first_word() -> None:
    assert [opening(text) for text in ("Give the offset.", "See ``store``.", "Tell: no.")] == [
        "Give",
        "See",
        "Tell",
    ]
    assert not any(map(opening, ("Return it.", "Do nothing.", "Givens of a store.", "", "Take-off")))


def test_functions_have_few_parameters(found: list[Definition]) -> None:
    functions = [one for one in found if isinstance(one.node, Function)]
    long = {
        one.place
        for one in functions
        if isinstance(one.node, Function)
        and parameter_count(one.node) > (COMPILED_PARAMETERS_MAX if is_compiled(one) else PARAMETERS_MAX)
    }
    assert sorted(long - set(LONG_SIGNATURES)) == []
    assert set(LONG_SIGNATURES) - long == set(), "no longer an exception"


def test_a_class_name_has_one_meaning_in_the_package(found: list[Definition]) -> None:
    counts = Counter(one.node.name for one in found if isinstance(one.node, ast.ClassDef))
    clashes = {name: count for name, count in counts.items() if count > 1}
    assert set(SAME_THING) - set(clashes) == set(), "no longer an exception"
    assert clashes.keys() - SAME_THING.keys() == set()
