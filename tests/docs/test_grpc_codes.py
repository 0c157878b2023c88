"""The page of codes has what the proxy is tested to answer: ``python -m tests.grpc_codes`` writes it anew."""

from collections import Counter

from tests.grpc_codes.asking import CASES
from tests.grpc_codes.differences import useless
from tests.grpc_codes.page import PAGE, written

from cometmq.proxy.transport import METHODS


def test_the_page_has_the_code_of_each_call() -> None:
    page = PAGE.read_text()
    assert written(page, CASES) == page, "python -m tests.grpc_codes"
    assert all(f"| `{rpc}` |" in page for rpc in METHODS)


def test_each_call_has_a_text_of_its_own() -> None:
    assert [text for text, count in Counter(map(str, CASES)).items() if count > 1] == []


def test_no_difference_is_listed_of_what_we_answer_too() -> None:
    assert not list(useless(CASES))
