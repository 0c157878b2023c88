"""Each command of ours that a page shows at a prompt is one that the command line takes.

They are parsed, not run: only the tutorial's are run (``test_tutorial.py``), and what a command does is for
the tests of the command line.
"""

import shlex
from collections.abc import Iterator
from itertools import dropwhile, groupby

import click
import pytest
from tests.kit.pages import FENCED, PAGES, PROMPT, ROOT, parse

ENDS = frozenset({"&&", ";", "|", ">"})
"""What ends a command's words."""


def shown_on(page: str) -> Iterator[list[str]]:
    """Yield the words behind ``cometmq`` of each command that a page shows."""
    for language, block in FENCED.findall(page):
        if language == "console":
            for line in PROMPT.findall(block):
                words = shlex.split(line.replace("\\\n", " "), comments=True)
                for is_end, of_command in groupby(words, ENDS.__contains__):
                    name, *arguments = dropwhile(lambda word: "=" in word, of_command)
                    if not is_end and name.rpartition("/")[2] == "cometmq":
                        yield arguments


@pytest.mark.parametrize("page", [path.relative_to(ROOT).as_posix() for path in PAGES])
def test_the_commands_of_a_page_are_those_that_there_are(page: str) -> None:
    for words in shown_on((ROOT / page).read_text()):
        try:
            parse(words)
        except click.UsageError as error:
            pytest.fail(f"{page}: cometmq {shlex.join(words)}: {error.format_message()}")


def test_a_command_that_is_not_there_or_lacks_an_option_is_noticed() -> None:
    page = (
        "```console\n$ A=b a/cometmq topic create t --queues 8 && b cometmq | cometmq tails   # seen\n```\n"
    )
    first, second = shown_on(page)
    assert (first, second) == (["topic", "create", "t", "--queues", "8"], ["tails"])
    parse(first)
    with pytest.raises(click.UsageError, match="tails"):
        parse(second)
    with pytest.raises(click.UsageError, match="--tail"):
        parse([*first, "--tail"])
