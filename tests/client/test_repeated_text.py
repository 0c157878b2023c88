import pytest

from cometmq.client import repeated_text
from cometmq.client.repeated_text import RepeatedText


async def test_a_text_is_due_when_it_changes_and_when_its_failure_begins_again() -> None:
    texts = RepeatedText()
    assert [texts.is_due(text) for text in ("a", "a", "b", "a")] == [True, False, True, True]
    texts.clear()
    assert texts.is_due("a")


async def test_a_text_is_due_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = RepeatedText()
    assert texts.is_due("a")
    monkeypatch.setattr(repeated_text, "AGAIN_S", 0.0)
    assert texts.is_due("a")
