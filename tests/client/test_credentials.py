"""A client's credentials are those that it is given, those of the environment, or those of a file."""

from pathlib import Path
from typing import Any

import pytest

from cometmq.client.credentials import find_credentials, read_credentials
from cometmq.errors import IllegalType, SettingsError
from cometmq.wire.acl import Credentials

USER = Credentials("user", "secret")


def test_what_is_given_comes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMETMQ_ACCESS_KEY", "other")
    monkeypatch.setenv("COMETMQ_SECRET_KEY", "word")
    assert find_credentials(USER) == USER
    assert find_credentials(None) == Credentials("other", "word")


def test_without_any_requests_are_not_signed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COMETMQ_ACCESS_KEY", raising=False)
    monkeypatch.setenv("COMETMQ_SECRET_KEY", "")
    assert find_credentials(None) is None


@pytest.mark.parametrize(
    ("there", "missing"),
    [("COMETMQ_ACCESS_KEY", "COMETMQ_SECRET_KEY"), ("COMETMQ_SECRET_KEY", "COMETMQ_ACCESS_KEY")],
)
def test_half_of_the_environment_is_refused(
    monkeypatch: pytest.MonkeyPatch, there: str, missing: str
) -> None:
    monkeypatch.delenv(missing, raising=False)
    monkeypatch.setenv(there, "text")
    with pytest.raises(SettingsError, match=f"^environment variable {missing} is not set, but {there} is"):
        find_credentials(None)


def test_what_is_no_credentials_is_refused_without_being_shown() -> None:
    pair: Any = ("user", "secret")
    with pytest.raises(IllegalType, match=r"^credentials \(tuple\): give Credentials\(name, secret\)$"):
        find_credentials(pair)


def file_of(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "tools.yml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "text",
    [
        "# Licensed to the ASF\n\naccessKey: user\nsecretKey: secret\n",
        "---\r\nsecretKey : secret  # of the tools\r\naccessKey: \t'user'\r\nother:\r\n  - 1\r\n",
        'accessKey: "user"\nsecretKey: secret',
    ],
)
def test_a_file_of_rocketmqs_tools_is_read(tmp_path: Path, text: str) -> None:
    assert read_credentials(file_of(tmp_path, text)) == USER


def test_a_secret_may_hold_what_yaml_gives_a_meaning_if_it_is_quoted(tmp_path: Path) -> None:
    path = file_of(tmp_path, "accessKey: a#b\nsecretKey: 'it''s: #1'\n")
    assert read_credentials(path) == Credentials("a#b", "it's: #1")


def test_a_file_without_keys_has_no_credentials(tmp_path: Path) -> None:
    assert read_credentials(file_of(tmp_path, "# accessKey: user\n")) is None


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("accessKey: user\n", "it has no secretKey"),
        ("secretKey: ''\naccessKey: user\n", "it has no secretKey"),
        ("accessKey: user\nsecretKey: |\n  hidden\n", "line 2: write it as name: 'text'"),
        ("accessKey: user\nsecretKey: 'hidden\n", "line 2: write it as name: 'text'"),
    ],
)
def test_a_file_that_is_half_or_more_than_lines_is_refused_without_quoting_it(
    tmp_path: Path, text: str, error: str
) -> None:
    with pytest.raises(SettingsError, match=error) as caught:
        read_credentials(file_of(tmp_path, text))
    assert "tools.yml" in str(caught.value)
    assert "hidden" not in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"away\.yml: No such file"):
        read_credentials(tmp_path / "away.yml")
    (tmp_path / "binary.yml").write_bytes(b"\xff")
    with pytest.raises(SettingsError, match=r"binary\.yml: it is not text"):
        read_credentials(tmp_path / "binary.yml")
