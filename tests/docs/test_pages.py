"""Every Python block in ``docs/`` and in README.md runs, and prints what the page says it prints.

The blocks of a page run in their order, as one program, in an empty directory. A ``text`` block right behind
one is what it prints. A block that begins with a comment ``# not run: REASON`` need only be Python.

Blocks may ``await``, as at the prompt of ``python -m asyncio``: all of a page run in one event loop. Where
a page names ``127.0.0.1:9876``, it finds a broker (in truth, on a free port), which takes messages back. A
page that uses Spark runs in this process, on the session that all tests share: one more would take longer to
start than all else.
"""

import re
from contextlib import ExitStack, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
from tests.kit.pages import NAME_SERVER, PAGES, README, ROOT, SPARK, Block, blocks_of, printed_by
from tests.live import in_thread

LINKING = [*PAGES, *sorted({*ROOT.glob("*.md")} - {README})]
LINK = re.compile(r"\]\((?![a-z]+:)([^)#\s]+)")
OTEL = "cometmq.otel"
RUN_ELSEWHERE = {
    "docs/guide/faststream.md": "test_examples.py, by pytest, in the files that it names",
    "docs/guide/spark.md": "tests/spark/test_guide.py, in Spark's session",
    "docs/guide/spark-streams.md": "tests/spark/test_guide.py, in Spark's session",
    "docs/guide/spark-connect.md": "tests/spark/test_connect.py, with a server of Spark Connect",
    "docs/guide/spark-remote.md": "tests/spark/files/test_remote.py, with a server that speaks S3",
    "docs/guide/spark-report.md": "tests/spark/jobs/report/test_report.py, over a real broker's stores",
    "docs/tutorial.md": "test_tutorial.py, with the commands between its programs",
}


def printed_here(blocks: list[Block]) -> dict[int, str]:
    """Run blocks in this process; give what each prints."""
    names: dict[str, object] = {"__name__": "page"}
    printed = {}
    for block in blocks:
        with redirect_stdout(StringIO()) as out:
            exec(compile(block.code, f"the block at line {block.line}", "exec"), names)
        printed[block.line] = out.getvalue()
    return printed


@pytest.mark.parametrize("page", [path.relative_to(ROOT).as_posix() for path in LINKING])
def test_links_between_pages_lead_somewhere(page: str) -> None:
    targets = LINK.findall((ROOT / page).read_text())
    assert [target for target in targets if not ((ROOT / page).parent / target).exists()] == []


@pytest.mark.timeout(600)  # Spark's start and first tasks, on a machine that is busy
@pytest.mark.parametrize("page", [path.relative_to(ROOT).as_posix() for path in PAGES])
def test_what_a_page_shows_is_what_happens(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    blocks = list(blocks_of((ROOT / page).read_text()))
    if ROOT / page == README:
        blocks = [block for block in blocks if SPARK not in block.code]  # what is left is the guide's
    if not blocks or page in RUN_ELSEWHERE:
        return
    if any(OTEL in block.code for block in blocks):
        pytest.importorskip(
            "opentelemetry.sdk", reason="OpenTelemetry is not installed: it is in requirements.lock"
        )
    with ExitStack() as stack:
        if any(NAME_SERVER in block.code for block in blocks):
            live = stack.enter_context(in_thread(tmp_path / "store", recall_message_enable=True))
            address = live.name_server
            blocks = [block._replace(code=block.code.replace(NAME_SERVER, address)) for block in blocks]
        if any(SPARK in block.code for block in blocks):
            request.getfixturevalue("spark")
            monkeypatch.chdir(tmp_path)
            printed = printed_here(blocks)
        else:
            printed = printed_by(blocks, tmp_path)
    for block in blocks:
        if block.printed is not None:
            assert printed[block.line] == block.printed, f"{page}:{block.line}"


def test_a_block_that_prints_something_else_or_fails_is_noticed(tmp_path: Path) -> None:
    page = "```python\nx = 1\n```\n\ntext\n\n```python\nprint(x)\n```\n\n```text\n2\n```\n"
    first, second = blocks_of(page)
    assert (first.printed, second.printed, second.line) == (None, "2\n", 7)
    assert printed_by([first, second], tmp_path) == {1: "", 7: "1\n"}
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        printed_by([Block(1, "1 / 0", None)], tmp_path)


def test_blocks_share_names_and_one_event_loop(tmp_path: Path) -> None:
    blocks = [
        Block(1, "import asyncio\nfirst = asyncio.get_running_loop()\nawait asyncio.sleep(0)", None),
        Block(2, "print(await asyncio.sleep(0, asyncio.get_running_loop() is first))", "True\n"),
    ]
    assert printed_by(blocks, tmp_path)[2] == "True\n"


def test_a_block_is_left_out_only_by_a_reason_that_readers_see() -> None:
    assert list(blocks_of("")) == []
    assert list(blocks_of("```python\n# not run: needs a broker\nawait f()\n```\n")) == []
    assert len(list(blocks_of("```python\n# not run:\nx = 1\n```\n"))) == 1
    with pytest.raises(SyntaxError):
        list(blocks_of("```python\n# not run: a reason\nx =\n```\n"))
