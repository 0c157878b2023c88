"""The page of requests has all that are answered: ``python -m tests.docs.test_requests`` writes it anew."""

import re
from collections.abc import Mapping
from typing import Final

import pytest
from msgspec.structs import fields
from tests.kit.pages import ROOT

from cometmq.wire.codes import RequestCode
from cometmq.wire.controller_requests import TO_CONTROLLERS
from cometmq.wire.headers import Header
from cometmq.wire.requests import TO_BROKERS, TO_CLIENTS, TO_NAME_SERVERS, Request

PAGE: Final = ROOT / "docs" / "reference" / "requests.md"
TABLE: Final = re.compile(r"^\| code \|.*?\n(?=\n|\Z)", re.MULTILINE | re.DOTALL)
TABLES: Final = (TO_BROKERS, TO_NAME_SERVERS, TO_CLIENTS, TO_CONTROLLERS)


def table(requests: Mapping[RequestCode, Request]) -> str:
    """Build the table of some requests, in the order of their codes."""
    lines = [
        "| code | name | header fields | body | answer's header fields | needs |",
        "|---|---|---|---|---|---|",
    ]
    for code in sorted(requests):
        request = requests[code]
        body = "" if request.body is None else f"`{request.body.__name__}`"
        needs = ", ".join(map(str, request.access)).replace("|", " or ")
        cells = (
            str(int(code)),
            f"`{code.name}`",
            _names(request.header),
            body,
            _names(request.answer),
            needs,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _names(header: type[Header]) -> str:
    """Return a header's fields; those that may be missing in brackets."""
    return ", ".join(
        f"`{field.encode_name}`" if field.required else f"[`{field.encode_name}`]" for field in fields(header)
    )


@pytest.mark.parametrize("position", range(len(TABLES)))
def test_the_page_has_each_request_and_what_it_carries(position: int) -> None:
    written = TABLE.findall(PAGE.read_text())[position]
    assert written == table(TABLES[position]), "python -m tests.docs.test_requests"


def test_no_request_of_the_page_of_unanswered_ones_is_answered() -> None:
    page = (PAGE.parent / "refused.md").read_text().partition("## Answered with less")
    unanswered, less = (set(re.findall(r"`([A-Z][A-Z0-9_]+)`", part)) for part in (page[0], page[2]))
    answered = {code.name for code in (*TO_BROKERS, *TO_NAME_SERVERS)}
    assert len(unanswered) > 20 and unanswered & answered == set()
    named = {code.name for code in RequestCode if re.search(rf"\| {int(code)} \|", page[2])}
    assert named == less & answered and len(named) == page[2].count("\n| ") - 1


if __name__ == "__main__":
    tables = iter(map(table, TABLES))
    PAGE.write_text(TABLE.sub(lambda _: next(tables), PAGE.read_text()))
