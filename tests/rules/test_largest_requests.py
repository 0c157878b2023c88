"""No request, of any code, holds up the loop for long, whatever it brings."""

import re
from pathlib import Path

import pytest
from tests.rules.largest import PAGE, WORK_MAX, Largest, broker_rows, name_server_rows


def told() -> dict[tuple[str, int], Largest]:
    """Read what the page says of each request."""
    rows = re.findall(
        r"^\| (broker|name server) \| (\d+) \w+ \| ([\d,]+) \| ([\d,]+) \|$", PAGE.read_text(), re.MULTILINE
    )
    return {(where, int(code)): Largest(number_of(size), number_of(work)) for where, code, size, work in rows}


def number_of(text: str) -> int:
    return int(text.replace(",", ""))


@pytest.mark.timeout(600)
async def test_the_costliest_request_of_each_code_makes_no_more_work_than_the_page_says(
    tmp_path: Path,
) -> None:
    """About a hundred kinds of requests, many of 16 MiB, each with every call counted.

    ``python -m tests.rules.largest`` finds out which is the costliest of a code, among many times as many.
    Versions of Python differ in what counts as a call, so there is some room.
    """
    page, found = told(), {}
    sizes = {place: one.size for place, one in page.items()}
    async for where, code, cost in broker_rows(tmp_path, sizes):
        found[where, code] = cost.work
    async for where, code, cost in name_server_rows(sizes):
        found[where, code] = cost.work
    assert found.keys() == page.keys(), "write the table anew: python -m tests.rules.largest"
    assert {key: work for key, work in found.items() if work > WORK_MAX} == {}
    assert {key: (work, page[key]) for key, work in found.items() if work > 1.5 * page[key].work} == {}
