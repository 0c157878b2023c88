"""The page of verdicts has what CometMQ's servers answer: ``python -m tests.verdicts`` writes it anew."""

from pathlib import Path

from tests.verdicts.differences import useless
from tests.verdicts.page import PAGE, at_our_broker, written

from cometmq.wire.requests import TO_BROKERS, TO_NAME_SERVERS


async def test_the_page_has_the_verdict_on_each_request_by_each_sender(tmp_path: Path) -> None:
    page = PAGE.read_text()
    assert await written(page, tmp_path) == page, "python -m tests.verdicts"
    assert all(f"| {int(code)} | `{code.name}` |" in page for code in (*TO_BROKERS, *TO_NAME_SERVERS))


async def test_no_difference_is_listed_of_what_we_let_through_too(tmp_path: Path) -> None:
    _, ours = await at_our_broker(tmp_path)
    assert not list(useless(ours))
