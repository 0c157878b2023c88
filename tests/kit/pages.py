"""The pages of the documentation: their Python blocks, and the commands that they show."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import click

from cometmq.cli.main import cli

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").rglob("*.md"))]
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NOT_RUN = re.compile(r"# not run: \w+")
MARK = "--- block behind line"
NAME_SERVER = "127.0.0.1:9876"
SPARK = "cometmq.spark"
PROGRAM = """
import ast, asyncio, inspect

names = {{"__name__": "page"}}
with asyncio.Runner() as runner:
    for line, code in {blocks!r}:
        print({mark!r}, line, flush=True)
        block = compile(code, f"the block at line {{line}}", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        if block.co_flags & inspect.CO_COROUTINE:
            runner.run(eval(block, names))
        else:
            exec(block, names)
"""
PATIENCE_S = 60


class Block(NamedTuple):
    """One Python block of a page, and what the page says that it prints."""

    line: int
    code: str
    printed: str | None


def blocks_of(page: str) -> Iterator[Block]:
    """Yield the Python blocks of a page that are run; those that are not must be Python all the same."""
    fenced = list(FENCED.finditer(page))
    for found, following in zip_longest(fenced, fenced[1:]):
        language, code = found.groups()
        if language != "python":
            continue
        line = page.count("\n", 0, found.start()) + 1
        if NOT_RUN.match(code):
            compile(code, f"line {line}", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            continue
        is_shown = following and following[1] == "text" and not page[found.end() : following.start()].strip()
        yield Block(line, code, following[2] if following and is_shown else None)


def printed_by(blocks: list[Block], directory: Path, patience_s: float = PATIENCE_S) -> dict[int, str]:
    """Run blocks as one program; give what each prints."""
    program = PROGRAM.format(blocks=[(block.line, block.code) for block in blocks], mark=MARK)
    command = [sys.executable, "-W", "error", "-c", program]
    ran = subprocess.run(
        command, cwd=directory, capture_output=True, text=True, timeout=patience_s, check=False
    )
    assert ran.returncode == 0, ran.stderr
    _, *pieces = re.split(f"^{MARK} (\\d+)\n", ran.stdout, flags=re.MULTILINE)
    return {int(line): text for line, text in zip(pieces[::2], pieces[1::2], strict=True)}


PROMPT = re.compile(r"^ *\$ ((?:.*\\\n)*.*)", re.MULTILINE)


def parse(words: list[str]) -> None:
    """Parse a command's words. Raises click.UsageError for those that it does not take."""
    command: click.Command = cli
    context = command.make_context("cometmq", list(words))
    while isinstance(command, click.Group):
        name, found, words = command.resolve_command(context, [*context._protected_args, *context.args])
        assert found is not None
        command, context = found, found.make_context(name, list(words), parent=context)


PORT = re.compile(r"(?<=127\.0\.0\.1:)\d+")
ANY_PORT = ("--port", "0", "--namesrv-port", "0")


def is_shown(shown: str, printed: str) -> bool:
    """Return whether a page shows what was printed."""
    lines = PORT.sub("PORT", shown).splitlines(keepends=True)
    pattern = "".join("(.*\n)*" if line == "…\n" else re.escape(line).replace("…", ".*") for line in lines)
    return re.fullmatch(pattern, PORT.sub("PORT", printed)) is not None
