import io
import sys

import click
import pytest

from cometmq.cli.users.options import read_password
from cometmq.errors import SettingsError


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_first_line_of_standard_input_is_the_password(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, password in (("a b \r\nnext", "a b "), ("only", "only")):
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))
        assert read_password(from_stdin=True) == password


def test_at_a_terminal_it_is_asked_for_twice_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, object]] = []

    def prompt(_text: str, **how: object) -> str:
        asked.append(how)
        return "hidden"

    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr(click, "prompt", prompt)
    assert read_password(from_stdin=False) == "hidden"
    assert asked == [{"hide_input": True, "confirmation_prompt": True, "err": True}]


def test_without_a_terminal_or_a_password_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    with pytest.raises(SettingsError, match="use --password-stdin"):
        read_password(from_stdin=False)
    with pytest.raises(SettingsError, match="the password is empty"):
        read_password(from_stdin=True)
